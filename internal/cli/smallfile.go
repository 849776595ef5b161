package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// maxSmallFile bounds a file that is read as a whole, in bytes: a topology of 10,000 shards has one.
const maxSmallFile = 1 << 20

// readSmall reads a file as a whole. What does not end, such as a device, is refused.
func readSmall(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSmallFile+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxSmallFile:
		return nil, fmt.Errorf("%s has more than %d bytes: that is another kind of file", path, maxSmallFile)
	}
	return text, nil
}

// plainJSON says what is wrong with JSON without the names of this program's types.
func plainJSON(err error) error {
	var wrong *json.UnmarshalTypeError
	var at *time.ParseError
	switch {
	case errors.As(err, &wrong):
		return fmt.Errorf("%s is a JSON %s, which cannot be: another kind of value belongs there", wrong.Field, wrong.Value)
	case errors.As(err, &at):
		return fmt.Errorf("%q is no time: write one as 2026-11-30T12:00:00Z", at.Value)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the JSON ends too early")
	}
	return err
}
