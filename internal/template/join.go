package template

// joiner puts texts together, one behind the other. Most expressions stand for one text, which grows in one buffer.
type joiner struct {
	out  []Text // what stands so far, once it is several texts
	text Text   // what stands so far, while it is one
	tail []byte // the literal behind text
	size int    // bytes of all literals of text and tail
	long bool   // the one text is beyond the bounds
	buf  [128]byte
}

// part appends one piece.
func (j *joiner) part(p Part) {
	switch {
	case j.out != nil:
		j.add([]Text{{p}})
	case j.long || p.Hole == "" && p.Literal == "":
	case j.size+len(p.Literal) > MaxText || len(j.text)+2 > maxParts:
		j.long = true
	case p.Hole != "":
		j.flush()
		j.text = append(j.text, p)
	default:
		if j.tail == nil {
			j.tail = j.buf[:0]
		}
		j.tail = append(j.tail, p.Literal...)
		j.size += len(p.Literal)
	}
}

// flush makes the literal behind the text a part of it.
func (j *joiner) flush() {
	if len(j.tail) > 0 {
		j.text = append(j.text, Part{Literal: string(j.tail)})
		j.tail = j.tail[:0]
	}
}

// add appends each of these texts.
func (j *joiner) add(ts []Text) {
	switch {
	case j.out != nil:
		j.out = product(j.out, ts)
	case len(ts) != 1:
		j.out = product(j.texts(), ts)
	default:
		for _, p := range ts[0] {
			j.part(p)
		}
	}
}

// texts are the texts that all of it stands for. The joiner must not be used afterwards.
func (j *joiner) texts() []Text {
	switch {
	case j.out != nil:
		return j.out
	case j.long:
		return []Text{tooLong}
	}
	j.flush()
	return []Text{j.text}
}
