package stamp

import (
	_ "embed"
	"strconv"
	"strings"
	"text/template"
)

// start is what an instance does at its first boot.
type start struct {
	Shard, Cell, Service string
	Region               string
	Bucket, Key          string // where the archive of the service is
	SHA256               string // its digest, in hexadecimal
	Command              string // file in the archive that is run
	Port                 int
	HealthPath           string
	Env                  string // NAME=value lines
	Stack, Resource      string // whose deployment waits for the instance's word
	LogGroup             string // where the service's output goes
}

//go:embed start.sh.tmpl
var startSource string

var startTemplate = template.Must(template.New("start.sh").Option("missingkey=error").Parse(startSource))

// HealthURL is the service's health path on the instance itself, quoted for the shell: a path may hold
// any visible character. All else that goes into the script are checked names and digests.
func (s start) HealthURL() string {
	url := "http://127.0.0.1:" + strconv.Itoa(s.Port) + s.HealthPath
	return "'" + strings.ReplaceAll(url, "'", `'\''`) + "'"
}

// script is the user data.
func (s start) script() string {
	var b strings.Builder
	if err := startTemplate.Execute(&b, s); err != nil {
		panic(err) // unreachable: the template uses these fields alone, and a Builder never fails
	}
	return b.String()
}
