package fleet

// check sees to the rules between values.
func (f *Fleet) check(d *decoder) {}
