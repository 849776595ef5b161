package placement

// field is the finite field GF(q), for any prime power q = p^m up to MaxShards.
//
// Its elements are the polynomials of degree below m over the integers modulo p. Each is written as the
// number from 0 to q-1 whose digits in base p are its coefficients, the constant term last. So 0 is zero,
// 1 is one, and where m is 1 the elements are the integers modulo p.
//
// A product is a sum of exponents of an element α whose powers are all elements but zero.
type field struct {
	p, q     uint32
	power    []uint16 // α^e, for e below q-1
	exponent []uint16 // of each element; nothing for zero
	next     []uint16 // 1+α^e; where q is neither a prime nor a power of 2
}

// newField takes a prime power q, 2 to MaxShards, as primePower tells it.
//
// α is the polynomial X, and the first rule for X^m is taken under which X has q-1 different powers, none
// of them zero. No other test is needed: every element but zero is then a power of X and so has an
// inverse, which makes the ring a field. Where m is 1, the rule is that X stands for an integer.
func newField(q int) field {
	p, m, _ := primePower(q)
	f := field{p: p, q: uint32(q), power: make([]uint16, q-1), exponent: make([]uint16, q)}
	for r := uint32(1); ; r++ { // ends: every field has an element of order q-1
		if r%p == 0 {
			continue // X would divide X^m, and not be a power that comes back to 1
		}
		if rule := newReducer(p, m, r); rule.powers(f.power) {
			break
		}
	}
	for e, v := range f.power {
		f.exponent[v] = uint16(e)
	}
	if p > 2 && m > 1 {
		f.next = make([]uint16, q-1)
		for e, v := range f.power {
			last := uint32(v) % p
			f.next[e] = uint16(uint32(v) - last + (last+1)%p)
		}
	}
	return f
}

// add is a+b: digit by digit in base p, which is an exclusive or for 2 and one addition for a prime.
func (f *field) add(a, b uint32) uint32 {
	if f.p == 2 {
		return a ^ b
	}
	if f.p == f.q {
		return wrap(a+b-f.q, f.q)
	}
	return f.addByQuotient(a, b)
}

// addByQuotient is a+b as a·(1+b/a). What 1+α^e is was looked up before: Zech's logarithms.
func (f *field) addByQuotient(a, b uint32) uint32 {
	if a == 0 {
		return b
	}
	if b == 0 {
		return a
	}
	e := wrap(uint32(f.exponent[b])-uint32(f.exponent[a]), f.q-1)
	return f.mul(a, uint32(f.next[e]))
}

// mul is a·b.
func (f *field) mul(a, b uint32) uint32 {
	if a == 0 || b == 0 {
		return 0
	}
	return uint32(f.power[wrap(uint32(f.exponent[a])+uint32(f.exponent[b])-(f.q-1), f.q-1)])
}

// wrap adds n to x where x is below zero, and not below -n. It has no branch, because elements are as good as
// random and no processor could predict it.
func wrap(x, n uint32) uint32 {
	return x + n&uint32(int32(x)>>31)
}

// horner is the polynomial of these coefficients, at least one and the constant term first, at the point
// whose products are given: times[v] is the point times v. It is a loop of add, which is written out because
// a call for each sum would take longer than the sums.
func (f *field) horner(coefficients []uint32, times []uint16) uint32 {
	last := len(coefficients) - 1
	v := coefficients[last]
	switch {
	case f.p == 2:
		for i := last - 1; i >= 0; i-- {
			v = uint32(times[v]) ^ coefficients[i]
		}
	case f.p == f.q:
		for i := last - 1; i >= 0; i-- {
			v = wrap(uint32(times[v])+coefficients[i]-f.q, f.q)
		}
	default:
		for i := last - 1; i >= 0; i-- {
			v = f.addByQuotient(uint32(times[v]), coefficients[i])
		}
	}
	return v
}

// reducer multiplies polynomials over the integers modulo p by X, under a rule for X^m. They are
// written as the elements of a field are.
type reducer struct {
	p, q, high uint32 // q = p^m, high = p^(m-1)
	terms      []term // of X^m
}

type term struct{ power, coefficient uint32 } // power is p^i for X^i

func newReducer(p uint32, m int, rule uint32) reducer {
	r := reducer{p: p, high: 1}
	for range m {
		if c := rule % p; c != 0 {
			r.terms = append(r.terms, term{r.high, c})
		}
		rule /= p
		r.q, r.high = r.high*p, r.high*p
	}
	r.high /= p
	return r
}

// timesX is v·X.
func (r *reducer) timesX(v uint32) uint32 {
	top := v / r.high
	v = v % r.high * r.p
	if top != 0 {
		for _, t := range r.terms {
			digit := v / t.power % r.p
			v += ((digit+top*t.coefficient)%r.p - digit) * t.power // the difference may wrap, and wraps back
		}
	}
	return v
}

// powers sets dst, of q-1 elements, to the powers of X from X^0 on, and tells whether they are all
// different and none is zero. As the rule has a constant term, X can be divided by and its powers
// form a cycle: they differ until 1 comes back.
func (r *reducer) powers(dst []uint16) bool {
	v := uint32(1)
	for e := range dst {
		if e > 0 && v == 1 {
			return false
		}
		dst[e] = uint16(v)
		v = r.timesX(v)
	}
	return v == 1
}

// primePower tells whether q, at most MaxShards, is p^m for a prime p and m >= 1.
func primePower(q int) (p uint32, m int, ok bool) {
	if q < 2 {
		return 0, 0, false
	}
	p = uint32(q)
	for d := uint32(2); d*d <= p; d++ {
		if p%d == 0 {
			p = d
			break
		}
	}
	rest := uint32(q)
	for rest%p == 0 {
		rest /= p
		m++
	}
	return p, m, rest == 1
}
