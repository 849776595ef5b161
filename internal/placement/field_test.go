package placement

import (
	"math/rand/v2"
	"testing"
)

// TestFieldAxioms: all sums and products of small fields, and random ones of large fields, obey the
// axioms. A ring of q elements that obeys them is GF(q); there is no other.
func TestFieldAxioms(t *testing.T) {
	for _, q := range []int{2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 25, 27, 32, 49, 64} {
		f := newField(q)
		for a := range uint32(q) {
			for b := range uint32(q) {
				for c := range uint32(q) {
					checkAxioms(t, &f, a, b, c)
				}
			}
		}
		checkInverses(t, &f)
	}
	const seed = 5
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, seed))
	for _, q := range []int{81, 125, 128, 169, 243, 251, 256, 257, 343, 512, 625, 729, 1024, 3125, 16384, 59049, 65521, 65536} {
		f := newField(q)
		for range 20_000 {
			checkAxioms(t, &f, rng.Uint32N(uint32(q)), rng.Uint32N(uint32(q)), rng.Uint32N(uint32(q)))
		}
		checkInverses(t, &f)
	}
}

func checkAxioms(t *testing.T, f *field, a, b, c uint32) {
	t.Helper()
	sum, product := f.add(a, b), f.mul(a, b)
	switch {
	case sum >= f.q || product >= f.q:
		t.Fatalf("GF(%d) is not closed over %d and %d", f.q, a, b)
	case sum != f.add(b, a) || product != f.mul(b, a):
		t.Fatalf("GF(%d): %d and %d do not commute", f.q, a, b)
	case f.add(sum, c) != f.add(a, f.add(b, c)) || f.mul(product, c) != f.mul(a, f.mul(b, c)):
		t.Fatalf("GF(%d): %d, %d and %d do not associate", f.q, a, b, c)
	case f.mul(a, f.add(b, c)) != f.add(product, f.mul(a, c)):
		t.Fatalf("GF(%d): %d does not distribute over %d and %d", f.q, a, b, c)
	case f.add(a, 0) != a || f.mul(a, 1) != a || f.mul(a, 0) != 0:
		t.Fatalf("GF(%d): 0 and 1 are not neutral to %d", f.q, a)
	}
}

// checkInverses: every element has a negative, its product with p-1, and every one but zero an inverse,
// its power of exponent q-2.
func checkInverses(t *testing.T, f *field) {
	t.Helper()
	for a := range f.q {
		if f.add(a, f.mul(f.p-1, a)) != 0 {
			t.Fatalf("GF(%d): %d has no negative", f.q, a)
		}
		if a == 0 {
			continue
		}
		inverse, square := uint32(1), a
		for e := f.q - 2; e > 0; e /= 2 {
			if e%2 == 1 {
				inverse = f.mul(inverse, square)
			}
			square = f.mul(square, square)
		}
		if f.mul(a, inverse) != 1 {
			t.Fatalf("GF(%d): %d has no inverse", f.q, a)
		}
	}
}

// The sum is digit by digit, and a prime field's product is that of the integers.
func TestFieldDigits(t *testing.T) {
	for _, q := range []int{2, 3, 4, 7, 8, 9, 25, 27, 32, 49, 81, 125, 251, 343} {
		f := newField(q)
		for a := range f.q {
			for b := range f.q {
				want, power := uint32(0), uint32(1)
				for x, y := a, b; power < f.q; x, y, power = x/f.p, y/f.p, power*f.p {
					want += (x%f.p + y%f.p) % f.p * power
				}
				if got := f.add(a, b); got != want {
					t.Fatalf("GF(%d): %d+%d is %d, want %d", q, a, b, got, want)
				}
				if f.p == f.q && f.mul(a, b) != a*b%f.q {
					t.Fatalf("GF(%d): %d·%d is %d", q, a, b, f.mul(a, b))
				}
			}
		}
	}
}

// horner is the sum of the products with powers of the point.
func TestFieldHorner(t *testing.T) {
	const seed = 23
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, seed))
	for _, q := range []int{2, 3, 4, 9, 11, 27, 64, 251, 343, 512} {
		f := newField(q)
		for x := range f.q {
			times := make([]uint16, q)
			for v := range times {
				times[v] = uint16(f.mul(x, uint32(v)))
			}
			coefficients := make([]uint32, 1+rng.IntN(6))
			want, power := uint32(0), uint32(1)
			for i := range coefficients {
				coefficients[i] = rng.Uint32N(f.q)
				want, power = f.add(want, f.mul(coefficients[i], power)), f.mul(power, x)
			}
			if got := f.horner(coefficients, times); got != want {
				t.Fatalf("GF(%d): %v at %d is %d, want %d", q, coefficients, x, got, want)
			}
		}
	}
}

// Every prime power up to MaxShards has a field whose α has all elements but zero as powers. The largest
// ones take most of the time, so of those above 2,000 only the true powers are made, and some primes.
func TestFieldOfEveryPrimePower(t *testing.T) {
	fields := 0
	for q := 2; q <= MaxShards; q++ {
		p, m, ok := primePower(q)
		if ok != isPrimePower(q) {
			t.Fatalf("%d is told to be a prime power: %v", q, ok)
		}
		if !ok || q > 2000 && m == 1 && q%97 != 0 && q%100 != 1 {
			continue
		}
		f := newField(q)
		seen := make([]bool, q)
		for _, v := range f.power {
			if v == 0 || seen[v] {
				t.Fatalf("GF(%d): %d is no new power", q, v)
			}
			seen[v] = true
		}
		if f.p != p || len(f.power) != q-1 {
			t.Fatalf("GF(%d) has characteristic %d and %d powers", q, f.p, len(f.power))
		}
		fields++
	}
	t.Logf("%d fields", fields)
}

// isPrimePower is the definition: one prime divides q.
func isPrimePower(q int) bool {
	primes := 0
	for d := 2; q > 1; d++ {
		if d*d > q {
			d = q
		}
		if q%d == 0 {
			primes++
			for q%d == 0 {
				q /= d
			}
		}
	}
	return primes == 1
}

func TestPrimePowerRefuses(t *testing.T) {
	for _, q := range []int{-4, -1, 0, 1, 6, 12, 100, 65535} {
		if _, _, ok := primePower(q); ok {
			t.Errorf("%d is told to be a prime power", q)
		}
	}
}
