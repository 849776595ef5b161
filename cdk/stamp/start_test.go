package stamp

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cellwall.dev/cellwall/internal/fleet"
)

// userData is the start script of the sample's first shard, and the archive that it fetches.
func userData(t *testing.T) (script, archive string) {
	t.Helper()
	s := shape(t, "per-shard")[shardPath]
	script, ok := s.one(t, "AWS::EC2::LaunchTemplate").at("LaunchTemplateData", "UserData", "Fn::Base64").(string)
	if !ok {
		t.Fatal("the user data is not one text")
	}
	_, rest, _ := strings.Cut(script, "s3://cdk-hnb659fds-assets-111111111111-eu-west-1/")
	key, _, _ := strings.Cut(rest, " ")
	return script, filepath.Join(filepath.Dir(s.file), "..", "asset."+key)
}

// TestStart runs the start script in a folder of its own, with stand-ins for what belongs to AWS and
// systemd: the right archive is unpacked and started, any other is not, and the deployment hears whether
// the service answers. An agent that is not to be had, or does not start, keeps nothing from starting, and is told of.
func TestStart(t *testing.T) {
	script, archive := userData(t)
	for name, c := range map[string]struct {
		archive string // what S3 gives; "" when it gives nothing
		starts  bool
		answers int  // the try at which the service answers its health path; 0 for never
		refused bool // whether CloudFormation refuses the signal, as outside of a deployment
		agent   string
	}{
		"the archive of the fleet": {archive: read(t, archive), starts: true, answers: 3},
		"a scale-out":              {archive: read(t, archive), starts: true, answers: 1, refused: true},
		"a service without answer": {archive: read(t, archive), starts: true},
		"an image with the agent":  {archive: read(t, archive), starts: true, answers: 1, agent: "there"},
		"no package of the agent":  {archive: read(t, archive), starts: true, answers: 1, agent: "missing"},
		"an agent that fails":      {archive: read(t, archive), starts: true, answers: 1, agent: "broken"},
		"another archive":          {archive: read(t, archive) + " "},
		"no archive":               {},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			standIn := func(name, body string) { write(t, filepath.Join(dir, "bin", name), "#!/bin/bash\n"+body, 0o755) }
			standIn("sleep", "")
			standIn("id", "exit 1")
			standIn("useradd", `echo "$@" >>"`+dir+`/useradd"`)
			standIn("systemctl", `echo "$@" >>"`+dir+`/systemctl"`)
			// unzip is on the image, and need not be here.
			standIn("unzip", `exec python3 -c 'import sys, zipfile; zipfile.ZipFile(sys.argv[1]).extractall(sys.argv[2])' "$3" "$5"`)
			fetch := "exit 1"
			if c.archive != "" {
				write(t, filepath.Join(dir, "object"), c.archive, 0o644)
				fetch = `cp "` + dir + `/object" "${@: -1}"`
			}
			const ctl = "/opt/aws/amazon-cloudwatch-agent/bin/amazon-cloudwatch-agent-ctl"
			agent := `echo "$@" >>"` + dir + `/agent"`
			if c.agent == "broken" {
				agent += "; exit 1"
			}
			write(t, filepath.Join(dir, "packaged"), "#!/bin/bash\n"+agent, 0o755)
			install := `mkdir -p "` + dir + filepath.Dir(ctl) + `" && cp "` + dir + `/packaged" "` + dir + ctl + `"`
			switch c.agent {
			case "missing":
				install = "exit 1"
			case "there":
				install = `touch "` + dir + `/asked"`
				write(t, dir+ctl, "#!/bin/bash\n"+agent, 0o755)
			}
			standIn("dnf", `[ "${*: -2}" = "install amazon-cloudwatch-agent" ] || exit 1; /bin/sleep 0.3; `+install)
			signal := "exit 0"
			if c.refused {
				signal = "exit 254"
			}
			standIn("aws", `if [ "$1" = cloudformation ]; then ls "`+dir+`" >"`+dir+`/before"; echo "$@" >>"`+dir+`/signal"; `+signal+`; fi; `+fetch)
			standIn("curl", `case "${@: -1}" in
*/latest/api/token) [ "$5" = PUT ] && echo token ;;
*/latest/meta-data/instance-id) [[ "$*" == *"X-aws-ec2-metadata-token: token"* ]] && echo i-0123456789abcdef0 ;;
http://127.0.0.1:8080/healthz) echo >>"`+dir+`/tries"; [ "$(wc -l <"`+dir+`/tries")" -eq `+strconv.Itoa(c.answers)+` ] ;;
*) exit 7 ;;
esac`)
			here := script
			for _, folder := range []string{"/opt/cellwall", "/opt/aws", "/etc/cellwall", "/etc/systemd/system", "/var/log/cellwall"} {
				here = strings.ReplaceAll(here, folder, dir+folder)
			}
			if err := os.MkdirAll(dir+"/etc/systemd/system", 0o755); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("bash", "-c", here)
			cmd.Env = append(os.Environ(), "PATH="+dir+"/bin:"+os.Getenv("PATH"), "TMPDIR="+dir)
			out, err := cmd.CombinedOutput()
			if _, called := os.Stat(dir + "/systemctl"); (called == nil) != c.starts || (err == nil) != (c.answers > 0) {
				t.Fatalf("started is %v with %v, want %v; it said:\n%s", called == nil, err, c.starts, out)
			}
			word := "FAILURE"
			if c.answers > 0 {
				word = "SUCCESS"
			}
			if got, want := read(t, dir+"/signal"), "cloudformation signal-resource --region eu-west-1 --stack-name orders-eu-canary-shard-s01 --logical-resource-id Instances"+
				" --unique-id i-0123456789abcdef0 --status "+word+" --cli-connect-timeout 5 --cli-read-timeout 10\n"; got != want {
				t.Errorf("the deployment is told:\n%swant:\n%s", got, want)
			}
			if c.starts && c.answers == 0 {
				if tries := strings.Count(read(t, dir+"/tries"), "\n"); tries != 60 || !strings.Contains(string(out), "does not answer at http://127.0.0.1:8080/healthz") {
					t.Errorf("after %d tries it said:\n%s", tries, out)
				}
			}
			if !c.starts {
				if !strings.Contains(string(out), "nothing is started") {
					t.Errorf("it said only:\n%s", out)
				}
				return
			}
			if got := read(t, dir+"/systemctl"); got != "daemon-reload\nenable --now cellwall.service cellwall-log.timer\n" {
				t.Errorf("systemctl was called with:\n%s", got)
			}
			if got := read(t, dir+"/opt/cellwall/worker-http"); got != executable(ARM64) {
				t.Errorf("%d bytes were unpacked", len(got))
			}
			unit := read(t, dir+"/etc/systemd/system/cellwall.service")
			for _, line := range []string{"User=cellwall", "Restart=always", "NoNewPrivileges=yes", "ProtectSystem=strict", "CapabilityBoundingSet=",
				"ExecStart=" + dir + "/opt/cellwall/worker-http", "StandardOutput=append:" + dir + "/var/log/cellwall/service.log", "StandardError=inherit", "EnvironmentFile=" + dir + "/etc/cellwall/service.env"} {
				if !strings.Contains(unit, "\n"+line+"\n") {
					t.Errorf("the unit has no line %s:\n%s", line, unit)
				}
			}
			checkAgent(t, dir, string(out), c.agent)
			want := `AWS_REGION=eu-west-1
CELLWALL_BUCKET=orders-eu-canary-s01-111111111111-eu-west-1
CELLWALL_CELL=eu-canary
CELLWALL_DEAD_QUEUE=orders-eu-canary-s01-dead
CELLWALL_DISPATCH_QUEUE=orders-eu-canary-dispatch
CELLWALL_SERVICE=orders
CELLWALL_SHARD=s01
CELLWALL_SHARD_TABLE=orders-eu-canary-s01-state
CELLWALL_TABLE=orders-eu-canary-store
PORT=8080
`
			if got := read(t, dir+"/etc/cellwall/service.env"); got != want {
				t.Errorf("the service is told:\n%s", got)
			}
		})
	}
}

// checkAgent sees what the start script did in dir so that the service's output goes to the shard's log group.
func checkAgent(t *testing.T, dir, said, agent string) {
	t.Helper()
	const lost = "what the service says stays on this instance alone"
	if fails := agent == "missing" || agent == "broken"; strings.Contains(said, lost) != fails {
		t.Errorf("with the agent %q it said:\n%s", agent, said)
	}
	if _, err := os.Stat(dir + "/asked"); err == nil {
		t.Error("an agent that is there was asked for")
	}
	if agent != "missing" {
		if !strings.Contains(read(t, dir+"/before"), "\nagent\n") && !strings.HasPrefix(read(t, dir+"/before"), "agent\n") {
			t.Error("the deployment was told before the agent had started or failed")
		}
		if got, want := read(t, dir+"/agent"), "-a fetch-config -m ec2 -s -c file:"+dir+"/etc/cellwall/agent.json\n"; got != want {
			t.Errorf("the agent was called with %swant %s", got, want)
		}
	}
	var config struct {
		Agent struct{ Region string }
		Logs  struct {
			Collected struct {
				Files struct {
					List []map[string]string `json:"collect_list"`
				}
			} `json:"logs_collected"`
		}
	}
	if err := json.Unmarshal([]byte(read(t, dir+"/etc/cellwall/agent.json")), &config); err != nil {
		t.Fatal(err)
	}
	const group = "/cellwall/orders/eu-canary/s01/service"
	if d := cmp.Diff([]map[string]string{
		{"file_path": dir + "/var/log/cellwall/service.log", "log_group_name": group, "log_stream_name": "{instance_id}"},
		{"file_path": "/var/log/cloud-init-output.log", "log_group_name": group, "log_stream_name": "{instance_id}/start"},
	}, config.Logs.Collected.Files.List); d != "" || config.Agent.Region != "eu-west-1" {
		t.Errorf("in %s the agent reads (-want +got):\n%s", config.Agent.Region, d)
	}
	// The file of the output is emptied when it is large, and only then.
	_, rest, _ := strings.Cut(read(t, dir+"/etc/systemd/system/cellwall-log.service"), "\nExecStart=")
	line, _, _ := strings.Cut(rest, "\n")
	if timer := read(t, dir+"/etc/systemd/system/cellwall-log.timer"); !strings.Contains(timer, "\nOnActiveSec=60\nOnUnitActiveSec=60\n") {
		t.Errorf("the timer is:\n%s", timer)
	}
	output := dir + "/var/log/cellwall/service.log"
	for size, want := range map[int64]int64{64 << 20: 64 << 20, 66 << 20: 0} {
		write(t, output, "", 0o644)
		must(t, os.Truncate(output, size))
		if out, err := exec.Command("bash", "-c", line).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", line, err, out)
		}
		if info, err := os.Stat(output); err != nil || info.Size() != want {
			t.Errorf("of %d bytes are left %d (%v), want %d", size, info.Size(), err, want)
		}
	}
}

// TestServiceLog: each shard with instances has one log group for what their service says, kept for as long as the
// others; the instances may write to that one alone, and have a way to it. A shard without has none.
func TestServiceLog(t *testing.T) {
	for _, name := range []string{"per-shard", "http-only", "everything"} {
		s := shape(t, name)[shardPath]
		logs := s.named(t, "AWS::Logs::LogGroup", "LogGroupName", "/cellwall/orders/eu-canary/s01/service")
		if logs.at("RetentionInDays") != 30.0 || (logs.at("KmsKeyId") != nil) != (name == "everything") {
			t.Errorf("%s: the log is %s", name, text(logs.Properties))
		}
		may := 0
		for id, p := range s.Template.Resources {
			if p.Type != "AWS::IAM::Policy" || !strings.HasPrefix(id, "InstanceRole") {
				continue
			}
			for _, st := range statements(t, p.at("PolicyDocument")) {
				if strings.HasPrefix(st.Action[0], "logs:") {
					may++
					to, _, _ := strings.Cut(strings.TrimPrefix(st.Resource[0], `{"Fn::GetAtt":["`), `"`)
					if got := text(st.Action); got != `["logs:CreateLogStream","logs:PutLogEvents"]` || len(st.Resource) != 1 ||
						s.Template.Resources[to].at("LogGroupName") != logs.at("LogGroupName") {
						t.Errorf("%s: instances may %s on %v", name, got, st.Resource)
					}
				}
			}
		}
		if may != 1 {
			t.Errorf("%s: %d statements about logs", name, may)
		}
	}
	if groups := shape(t, "lambda-only")[shardPath].of("AWS::Logs::LogGroup"); len(groups) != 1 {
		t.Errorf("%d log groups without instances", len(groups))
	}
	ways := func(name string) int {
		n := 0
		for _, e := range shape(t, name)["eu-canary/core"].of("AWS::EC2::VPCEndpoint") {
			if e.at("ServiceName") == "com.amazonaws.eu-west-1.logs" && strings.Contains(text(e.at("SecurityGroupIds")), `"SignalGroup`) {
				n++ // which lets in the cell's network
			}
		}
		return n
	}
	if ways("http-only") != 1 || ways("lambda-only") != 0 {
		t.Errorf("%d ways to CloudWatch Logs with instances, %d without", ways("http-only"), ways("lambda-only"))
	}
}

// TestStartFetchesWhatItMayRead: the object that the script fetches is the one that the role may read,
// and what it compares is the digest of the archive in the assembly.
func TestStartFetchesWhatItMayRead(t *testing.T) {
	script, archive := userData(t)
	sum := sha256.Sum256([]byte(read(t, archive)))
	if !strings.Contains(script, hex.EncodeToString(sum[:])+"  $archive") {
		t.Errorf("the script does not compare %x", sum)
	}
	key := strings.TrimPrefix(filepath.Base(archive), "asset.")
	var allowed []string
	for _, p := range shape(t, "per-shard")[shardPath].of("AWS::IAM::Policy") {
		for _, s := range statements(t, p.at("PolicyDocument")) {
			if strings.Contains(text(s.Resource), "cdk-hnb659fds") {
				allowed = append(allowed, s.Action...)
				allowed = append(allowed, s.Resource...)
			}
		}
	}
	if want := "s3:GetObject arn:aws:s3:::cdk-hnb659fds-assets-111111111111-eu-west-1/" + key; strings.Join(allowed, " ") != want {
		t.Errorf("the instances may do %v, want %s", allowed, want)
	}
	if len(script) > 16_000 { // Amazon EC2 takes 16 KB
		t.Errorf("the script has %d bytes", len(script))
	}
}

// TestSignal: the word that the start script gives is about the group that the deployment waits for, its
// role may give it, and the deployment waits longer than the script tries.
func TestSignal(t *testing.T) {
	s := shape(t, "per-shard")[shardPath]
	script, _ := userData(t)
	if group := s.Template.Resources[instancesID]; group.Type != "AWS::AutoScaling::AutoScalingGroup" || !strings.Contains(script, "--logical-resource-id "+instancesID+" ") {
		t.Errorf("%s is a %s", instancesID, group.Type)
	}
	var allowed []string
	for _, p := range s.of("AWS::IAM::Policy") {
		for _, statement := range statements(t, p.at("PolicyDocument")) {
			if text(statement.Action) == `["cloudformation:SignalResource"]` {
				allowed = append(allowed, statement.Resource...)
			}
		}
	}
	if want := `{"Ref":"AWS::StackId"}`; strings.Join(allowed, " ") != want {
		t.Errorf("instances may signal %v, want %s", allowed, want)
	}
	if longest := 10*3 + 60*(2+2) + 5 + 5 + 15; signalTime < longest+startTime {
		t.Errorf("a deployment waits %d s, and the script may take %d s after the launch", signalTime, longest)
	}
}

// TestHealthPathIsQuoted: a health path may hold any visible character, and the shell takes none of them
// for more than it is.
func TestHealthPathIsQuoted(t *testing.T) {
	const path = `/h'$(id)"${HOME}` + "`id`" + `[1-9]\{a,b};*?&|<>#!~%`
	script := start{Command: "service", Port: 8080, HealthPath: path}.script()
	_, rest, _ := strings.Cut(script, "\nurl=")
	line, _, _ := strings.Cut(rest, "\n")
	out, err := exec.Command("bash", "-c", "url="+line+"\nprintf %s \"$url\"").CombinedOutput()
	if got, want := string(out), "http://127.0.0.1:8080"+path; err != nil || got != want {
		t.Errorf("asks %s (%v), want %s", got, err, want)
	}
}

// TestLowPort: a service on a port below 1024 gets the one capability that this needs.
func TestLowPort(t *testing.T) {
	for port, want := range map[int]string{80: "\nAmbientCapabilities=CAP_NET_BIND_SERVICE\nCapabilityBoundingSet=CAP_NET_BIND_SERVICE\n", 1024: "\nCapabilityBoundingSet=\n"} {
		script := start{Command: "service", Port: port}.script()
		if !strings.Contains(script, want) || port == 1024 && strings.Contains(script, "CAP_NET_BIND") {
			t.Errorf("port %d:\n%s", port, script)
		}
	}
}

// TestArchive: the bytes follow from names, contents and executable bits; times and owners of the
// files do not count.
func TestArchive(t *testing.T) {
	folder := func(change func(dir string)) string {
		dir := t.TempDir()
		write(t, dir+"/service", "binary", 0o755)
		write(t, dir+"/assets/b.txt", "b", 0o644)
		write(t, dir+"/assets/a.txt", "a", 0o600)
		change(dir)
		return dir
	}
	digest := func(dir string) string {
		a, err := newArchive(dir, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256([]byte(read(t, a.path))); hex.EncodeToString(sum[:]) != a.sha256 {
			t.Errorf("the digest is %s, the file's %x", a.sha256, sum)
		}
		return a.sha256
	}
	first := digest(folder(func(string) {}))
	for name, c := range map[string]struct {
		change func(dir string)
		same   bool
	}{
		"another time":       {func(dir string) { must(t, os.Chtimes(dir+"/service", epoch, epoch)) }, true},
		"group may write":    {func(dir string) { must(t, os.Chmod(dir+"/assets/b.txt", 0o664)) }, true},
		"another content":    {func(dir string) { write(t, dir+"/assets/b.txt", "c", 0o644) }, false},
		"another name":       {func(dir string) { must(t, os.Rename(dir+"/assets/b.txt", dir+"/assets/c.txt")) }, false},
		"another file":       {func(dir string) { write(t, dir+"/z", "", 0o644) }, false},
		"no longer runnable": {func(dir string) { must(t, os.Chmod(dir+"/service", 0o644)) }, false},
	} {
		if got := digest(folder(c.change)); (got == first) != c.same {
			t.Errorf("%s: the digest is the same: %v, want %v", name, got == first, c.same)
		}
	}

	a, err := newArchive(folder(func(string) {}), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	content := read(t, a.path)
	z, err := zip.NewReader(strings.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		got.WriteString(f.Mode().String() + " " + f.Name + " " + string(b) + "\n")
	}
	if want := "-rw-r--r-- assets/a.txt a\n-rw-r--r-- assets/b.txt b\n-rwxr-xr-x service binary\n"; got.String() != want {
		t.Errorf("the archive holds:\n%s", got.String())
	}
}

// TestArchiveRefusesLinks: a link may lead out of the folder, and means another file on the instance.
func TestArchiveRefusesLinks(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/service", "binary", 0o755)
	must(t, os.Symlink("/etc/hostname", dir+"/link"))
	if _, err := newArchive(dir, t.TempDir()); err == nil || !strings.Contains(err.Error(), "link is neither a folder nor a regular file") {
		t.Errorf("a link was packed: %v", err)
	}
}

// TestExecutables: assets that nothing could start are refused.
func TestExecutables(t *testing.T) {
	h := fleet.HTTP{Asset: "dist/service", Command: "run", InstanceType: "t4g.small"}
	for name, c := range map[string]struct {
		content string
		mode    os.FileMode
		want    string
	}{
		"absent":               {"", 0, "dist/service/run is missing: run make dist"},
		"not executable":       {"x", 0o644, "dist/service/run is not an executable file, so nothing could start it: run make dist, or chmod +x"},
		"a folder":             {"", os.ModeDir, "dist/service/run is not an executable file, so nothing could start it: run make dist, or chmod +x"},
		"for the other":        {executable(X86), 0o755, "dist/service/run is built for EM_X86_64, but shard.http.instanceType t4g.small is arm64; build it for that one"},
		"the right one":        {executable(ARM64), 0o755, ""},
		"a script":             {"#!/bin/sh\n", 0o755, ""},
		"the start of nothing": {"", 0o755, ""},
	} {
		dir := t.TempDir()
		switch {
		case c.mode == os.ModeDir:
			must(t, os.Mkdir(dir+"/run", 0o755))
		case c.mode != 0:
			write(t, dir+"/run", c.content, c.mode)
		}
		err := checkService(h, dir)
		if got := message(err); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
