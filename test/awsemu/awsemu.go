// Package awsemu runs the AWS API emulator of test/emulator for Go tests. docs/testing.md says what in
// it is real, what is emulated and what is only asserted on templates.
//
// An emulator serves on a free loopback port and runs Lambda functions as real processes. It ends, with
// all of them, when it is closed, and also when the test's process dies in whatever way: it watches a
// pipe that the kernel closes then.
package awsemu

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

const (
	startTimeout = 2 * time.Minute  // loading moto takes 2 s on an idle machine
	closeTimeout = 15 * time.Second // then it is killed
)

// Emulator is a running emulator.
type Emulator struct {
	url          string
	templateOnly map[string]string
	command      *exec.Cmd
	alive        io.Closer // the pipe that the emulator watches
	exited       chan struct{}
	closing      sync.Once

	mu          sync.Mutex
	credentials map[string]aws.Credentials
}

// Start runs an emulator until the test ends. What it writes goes to the test's log when the test fails.
func Start(t testing.TB) *Emulator {
	t.Helper()
	said := &transcript{}
	e, err := New(t.Context(), said)
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	t.Cleanup(func() {
		e.Close()
		if t.Failed() {
			t.Logf("the emulator wrote:\n%s", said)
		}
	})
	return e
}

// New runs an emulator until it is closed. It writes what goes wrong inside to log.
func New(ctx context.Context, log io.Writer) (*Emulator, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	python := filepath.Join(root, ".venv", "bin", "python")
	if _, err := os.Stat(python); err != nil {
		return nil, errors.New("the emulator needs the Python tools in .venv, which are not there\nhint: make .venv/.stamp installs them")
	}
	rie, err := rie(ctx, root)
	if err != nil {
		return nil, err
	}
	command := exec.Command(python, "-m", "emulator", "--rie", rie)
	command.Dir = filepath.Join(root, "test")
	command.Env = environ()
	command.Stderr = log
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C is for the test; the emulator follows it
	alive, err := command.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start the emulator: %w", err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start the emulator: %w", err)
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start the emulator: %w", err)
	}
	e := &Emulator{command: command, alive: alive, exited: make(chan struct{}), credentials: map[string]aws.Credentials{}}
	first := make(chan string, 1)
	go func() {
		lines := bufio.NewReader(out)
		line, _ := lines.ReadString('\n')
		first <- line
		io.Copy(log, lines)
		command.Wait()
		close(e.exited)
	}()
	select {
	case line := <-first:
		err = e.ready(line)
	case <-time.After(startTimeout):
		err = fmt.Errorf("the emulator does not serve after %v", startTimeout)
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

func (e *Emulator) ready(line string) error {
	var hello struct {
		URL          string            `json:"url"`
		TemplateOnly map[string]string `json:"templateOnly"`
	}
	if err := json.Unmarshal([]byte(line), &hello); err != nil || hello.URL == "" {
		return fmt.Errorf("the emulator does not start; it wrote %q", line)
	}
	e.url, e.templateOnly = hello.URL, hello.TemplateOnly
	return nil
}

// Close ends the emulator and every process that it started, and waits for that.
func (e *Emulator) Close() {
	e.closing.Do(func() {
		e.alive.Close()
		select {
		case <-e.exited:
		case <-time.After(closeTimeout):
			syscall.Kill(-e.command.Process.Pid, syscall.SIGKILL)
			<-e.exited
		}
	})
}

// URL is the emulator's address, as AWS_ENDPOINT_URL takes it.
func (e *Emulator) URL() string { return e.url }

// TemplateOnly is the template-only list: what CloudFormation accepts here without making it, and why.
func (e *Emulator) TemplateOnly() map[string]string { return e.templateOnly }

// Config is the configuration of an SDK client that works in an account and region. S3 clients need
// UsePathStyle besides.
func (e *Emulator) Config(t testing.TB, account, region string) aws.Config {
	t.Helper()
	c := e.assume(t, account)
	return aws.Config{
		Region:       region,
		BaseEndpoint: aws.String(e.url),
		Credentials:  credentials.NewStaticCredentialsProvider(c.AccessKeyID, c.SecretAccessKey, c.SessionToken),
		HTTPClient:   few,
	}
}

// few opens no more connections than the emulator takes at a time on a busy machine: it resets others.
var few = awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
	t.MaxConnsPerHost, t.MaxIdleConnsPerHost = 64, 64
})

// Environ is the environment of a program that uses AWS in an account and region: this process's, but
// with nothing of AWS in it that is not the emulator's.
func (e *Emulator) Environ(t testing.TB, account, region string) []string {
	t.Helper()
	c := e.assume(t, account)
	return append(environ(),
		"AWS_ENDPOINT_URL="+e.url,
		"AWS_REGION="+region,
		"AWS_DEFAULT_REGION="+region,
		"AWS_ACCESS_KEY_ID="+c.AccessKeyID,
		"AWS_SECRET_ACCESS_KEY="+c.SecretAccessKey,
		"AWS_SESSION_TOKEN="+c.SessionToken,
		"AWS_EC2_METADATA_DISABLED=true",
		"AWS_CONFIG_FILE="+os.DevNull,
		"AWS_SHARED_CREDENTIALS_FILE="+os.DevNull,
	)
}

// Invocations is how often each Lambda function was invoked, by its ARN without a qualifier.
func (e *Emulator) Invocations(t testing.TB) map[string]int {
	t.Helper()
	var state struct {
		Invocations map[string]int `json:"invocations"`
	}
	resp, err := http.Get(e.url + "/emulator/state")
	if err == nil {
		defer resp.Body.Close()
		err = json.NewDecoder(resp.Body).Decode(&state)
	}
	if err != nil {
		t.Fatalf("ask the emulator for its state: %v", err)
	}
	return state.Invocations
}

// Obstacle is what a test puts in the way of a stack, which otherwise never fails and never takes long.
type Obstacle string

const (
	Hold  Obstacle = "hold"  // change sets that are executed stay in progress until this is taken away
	Fail  Obstacle = "fail"  // they fail when everything is changed, and are rolled back
	Stuck Obstacle = "stuck" // what is rolled back fails to be
)

// Obstruct puts obstacles in the way of the stacks of a name, and takes away those that there were.
func (e *Emulator) Obstruct(t testing.TB, stack string, obstacles ...Obstacle) {
	t.Helper()
	if obstacles == nil {
		obstacles = []Obstacle{}
	}
	body, err := json.Marshal(map[string]any{"stack": stack, "obstacles": obstacles})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post(e.url+"/emulator/obstacles", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatalf("obstruct %s: %v", stack, err)
	}
	defer resp.Body.Close()
	if said, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusNoContent {
		t.Fatalf("obstruct %s: %s: %s", stack, resp.Status, said)
	}
}

// Client asks the emulator whatever host is named, over HTTP: so it reaches Function URLs. It follows no redirect.
func (e *Emulator) Client() *http.Client {
	address := strings.TrimPrefix(e.url, "http://")
	return &http.Client{
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Ask asks a service by AWS JSON, version "1.0" or "1.1" of that protocol: one whose SDK the project does not need
// otherwise, or speaks a protocol that the emulator does not. service is the name that requests are signed for;
// in may be nil.
func (e *Emulator) Ask(t testing.TB, account, region, service, version, operation string, in, out any) {
	t.Helper()
	if in == nil {
		in = struct{}{}
	}
	body, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-amz-json-"+version)
	request.Header.Set("X-Amz-Target", operation)
	digest, c := sha256.Sum256(body), e.assume(t, account)
	if err := v4.NewSigner().SignHTTP(t.Context(), c, request, hex.EncodeToString(digest[:]), service, region, time.Now()); err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	if err == nil {
		err = json.Unmarshal(answer, out)
	}
	if err != nil {
		t.Fatalf("%s: %v: %s", operation, err, answer)
	}
}

// assume enters an account as the emulator knows accounts: by an assumed role.
func (e *Emulator) assume(t testing.TB, account string) aws.Credentials {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if c, ok := e.credentials[account]; ok {
		return c
	}
	client := sts.New(sts.Options{
		Region:       "us-east-1",
		BaseEndpoint: aws.String(e.url),
		Credentials:  credentials.NewStaticCredentialsProvider("none", "none", ""),
	})
	out, err := client.AssumeRole(t.Context(), &sts.AssumeRoleInput{
		RoleArn:         aws.String("arn:aws:iam::" + account + ":role/test"),
		RoleSessionName: aws.String("test"),
	})
	if err != nil {
		t.Fatalf("enter account %s: %v", account, err)
	}
	c := aws.Credentials{
		AccessKeyID:     *out.Credentials.AccessKeyId,
		SecretAccessKey: *out.Credentials.SecretAccessKey,
		SessionToken:    *out.Credentials.SessionToken,
	}
	e.credentials[account] = c
	return c
}

// Root is the project's folder: the nearest one above the working directory that holds go.mod.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.mod above the working directory: run the tests inside the project")
		}
	}
}

// rie is the path of the Lambda Runtime Interface Emulator, built if need be.
func rie(ctx context.Context, root string) (string, error) {
	command := exec.CommandContext(ctx, "go", "tool", "-n", "aws-lambda-rie")
	command.Dir = root
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("build the Lambda Runtime Interface Emulator: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// environ is this process's environment without AWS's variables: no real account is ever reached.
func environ() []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "AWS_") {
			env = append(env, v)
		}
	}
	return env
}

// transcript collects what the emulator writes, from two goroutines.
type transcript struct {
	mu   sync.Mutex
	text strings.Builder
}

func (t *transcript) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(p)
}

func (t *transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}
