package directory

import (
	"regexp"
	"strings"
	"testing"
)

// What is wrong with a line is said in words of the file, not of this program or its language.
func TestFaultsAreInPlainWords(t *testing.T) {
	foreign := regexp.MustCompile(`Go |struct|Entry\.|\[\]|uint64|Unmarshal|2006-01-02|EOF`)
	for text, want := range map[string]string{
		`{"tenant":"a","pins":"s01"}`:       `field "pins" is a JSON string: want a list of texts`,
		`{"tenant":"a","pins":[1]}`:         `field "pins" is a JSON number: want a list of texts`,
		`{"tenant":7}`:                      `field "tenant" is a JSON number: want a text`,
		`{"tenant":"a","epoch":-1}`:         `field "epoch" is a JSON number -1: want a whole number`,
		`{"tenant":"a","epoch":1.5}`:        `field "epoch" is a JSON number 1.5: want a whole number`,
		`{"tenant":"a","internal":"yes"}`:   `field "internal" is a JSON string: want true or false`,
		`{"tenant":"a","load":"much"}`:      "",
		`{"tenant":"a","load":{}}`:          "",
		`{"tenant":"a","created":"monday"}`: `"monday" is no time`,
		`{"tenant":"a","created":""}`:       `"" is no time`,
		`{"tenant":"a","created":12}`:       `is no text: want a time`,
		`{"tenant":"a","updated":{}}`:       `is no text: want a time`,
		`[]`:                                "want one JSON object",
		`{"tenant":`:                        "",
		`{`:                                 "",
		`x`:                                 "",
	} {
		for line, err := range ReadEntries(strings.NewReader(text+"\n"), JSONLines) {
			if err != nil {
				t.Fatal(err)
			}
			if line.Fault == nil || !strings.Contains(line.Fault.Error(), want) || foreign.MatchString(line.Fault.Error()) {
				t.Errorf("%s: %v, want %q", text, line.Fault, want)
			}
		}
	}
	for text, want := range map[string]string{"": "the file is empty", "\ntenant,cell\n": "it is empty", "\r\n": "it is empty"} {
		for _, err := range ReadEntries(strings.NewReader(text), CSV) {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v, want %q", text, err, want)
			}
		}
	}
	if err := Check(Entry{Tenant: "bad\xff", Cell: "c", State: Active, Operation: "o"}); err == nil || !strings.Contains(err.Error(), "is not UTF-8") {
		t.Errorf("%v", err)
	}
}
