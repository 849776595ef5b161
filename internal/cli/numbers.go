package cli

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// intVar adds a flag for a whole number in plain decimal digits. The flag library's own would read 010
// as eight and 0x10 as sixteen.
func intVar(flags *pflag.FlagSet, p *int, name string, value int, usage string) {
	*p = value
	flags.Var((*wholeNumber)(p), name, usage)
}

// intsVar adds a flag for whole numbers, separated by commas.
func intsVar(flags *pflag.FlagSet, p *[]int, name string, value []int, usage string) {
	*p = value
	flags.Var((*wholeNumbers)(p), name, usage)
}

// floatVar adds a flag for a number of 0 or more in plain decimal digits.
func floatVar(flags *pflag.FlagSet, p *float64, name string, value float64, usage string) {
	*p = value
	flags.Var((*number)(p), name, usage)
}

// countedVar adds a flag for an epoch or a version: a whole number from 1, in plain decimal digits. It is 0
// when the flag is left out.
func countedVar(flags *pflag.FlagSet, p *uint64, name, usage string) {
	flags.Var((*counted)(p), name, usage)
}

// wordVar adds a flag for a text that is not empty when it is given: an unset variable of a script is not to
// mean the default.
func wordVar(flags *pflag.FlagSet, p *string, name, value, usage string) {
	*p = value
	flags.Var((*word)(p), name, usage)
}

// wordsVar adds a flag for words, separated by commas or by giving it again. None is empty or stands twice.
func wordsVar(flags *pflag.FlagSet, p *[]string, name, usage string) {
	flags.Var((*words)(p), name, usage)
}

type wholeNumber int

var (
	wholeForm = regexp.MustCompile(`^(?:0|-?[1-9][0-9]*)$`)
	form      = regexp.MustCompile(`^(?:0|[1-9][0-9]*)(?:\.[0-9]+)?$`)
)

func (n *wholeNumber) Set(text string) error {
	if !wholeForm.MatchString(text) {
		return errors.New("want a whole number in decimal digits, without leading zeros")
	}
	i, err := strconv.Atoi(text)
	*n = wholeNumber(i)
	return err
}

func (n *wholeNumber) String() string { return strconv.Itoa(int(*n)) }
func (n *wholeNumber) Type() string   { return "int" }

type counted uint64

func (n *counted) Set(text string) error {
	if !wholeForm.MatchString(text) || text[0] == '-' || text == "0" {
		return errors.New("want a whole number from 1 in decimal digits, without leading zeros")
	}
	u, err := strconv.ParseUint(text, 10, 64)
	*n = counted(u)
	return err
}

func (n *counted) String() string { return strconv.FormatUint(uint64(*n), 10) }
func (n *counted) Type() string   { return "uint" }

type word string

func (w *word) Set(text string) error {
	if text == "" {
		return errors.New("it is empty: give it a value, or leave the flag out")
	}
	*w = word(text)
	return nil
}

func (w *word) String() string { return string(*w) }
func (w *word) Type() string   { return "string" }

type wholeNumbers []int

func (n *wholeNumbers) Set(text string) error {
	var list []int
	for field := range strings.SplitSeq(text, ",") {
		var one wholeNumber
		if err := one.Set(field); err != nil {
			return err
		}
		list = append(list, int(one))
	}
	*n = list
	return nil
}

func (n *wholeNumbers) String() string { return joinInts(*n, ",") }
func (n *wholeNumbers) Type() string   { return "ints" }

type words []string

func (w *words) Set(text string) error {
	for _, one := range strings.Split(text, ",") {
		switch {
		case one == "":
			return errors.New("a name in it is empty: give it a value, or leave it out")
		case slices.Contains(*w, one):
			return fmt.Errorf("%q stands twice: name it once", one)
		}
		*w = append(*w, one)
	}
	return nil
}

func (w *words) String() string { return strings.Join(*w, ",") }
func (w *words) Type() string   { return "strings" }

type number float64

func (n *number) Set(text string) error {
	if !form.MatchString(text) {
		return errors.New("want a number in decimal digits, such as 0.5 or 10")
	}
	f, err := strconv.ParseFloat(text, 64)
	*n = number(f)
	return err
}

func (n *number) String() string { return strconv.FormatFloat(float64(*n), 'g', -1, 64) }
func (n *number) Type() string   { return "float" }
