package awsemu_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"cellwall.dev/cellwall/test/awsemu"
)

// helperVariable makes the test's binary play a test that is killed.
const helperVariable = "CELLWALL_AWSEMU_HELPER"

// helper starts an emulator, says so, and waits to be killed.
func helper() {
	e, err := awsemu.New(context(), os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(e.URL())
	io.Copy(io.Discard, os.Stdin)
}

// TestNothingOutlivesTheTest kills a test in the hardest ways while a function runs: the emulator, the
// Runtime Interface Emulator and the function must be gone soon after.
func TestNothingOutlivesTheTest(t *testing.T) {
	zips, err := code()
	if err != nil {
		t.Fatal(err)
	}
	for name, kill := range map[string]func(helper *exec.Cmd, guardian int) error{
		"SIGKILL of the test":     func(helper *exec.Cmd, _ int) error { return helper.Process.Kill() },
		"SIGTERM of the test":     func(helper *exec.Cmd, _ int) error { return helper.Process.Signal(syscall.SIGTERM) },
		"SIGTERM of the emulator": func(_ *exec.Cmd, guardian int) error { return syscall.Kill(guardian, syscall.SIGTERM) },
		"SIGKILL of the emulator": func(_ *exec.Cmd, guardian int) error { return syscall.Kill(guardian, syscall.SIGKILL) },
	} {
		t.Run(name, func(t *testing.T) {
			helper := exec.Command(os.Args[0])
			helper.Env = append(os.Environ(), helperVariable+"=1")
			helper.Stderr = &said
			out, err := helper.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			in, err := helper.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := helper.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { in.Close(); helper.Process.Kill(); helper.Wait() })
			url, err := bufio.NewReader(out).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			runFunction(t, strings.TrimSpace(url), zips)

			guardians := children(t)[helper.Process.Pid]
			if len(guardians) != 1 {
				t.Fatalf("the test has the children %v, want one emulator", guardians)
			}
			below := descendants(t, guardians[0])
			if len(below) < 3 { // server, RIE, function
				t.Fatalf("the emulator has the descendants %v, want three at least", below)
			}
			if err := kill(helper, guardians[0]); err != nil {
				t.Fatal(err)
			}
			for _, pid := range below {
				eventually(t, fmt.Sprintf("process %d is gone", pid), func() bool { return gone(pid) })
			}
		})
	}
}

// runFunction deploys a function at an emulator of another process and invokes it.
func runFunction(t *testing.T, url string, zips map[lambdatypes.Architecture][]byte) {
	t.Helper()
	anyone := credentials.NewStaticCredentialsProvider("any", "any", "")
	role, err := iam.New(iam.Options{Region: region, BaseEndpoint: &url, Credentials: anyone}).CreateRole(t.Context(), &iam.CreateRoleInput{
		RoleName: aws.String("living"), AssumeRolePolicyDocument: aws.String(`{"Version":"2012-10-17","Statement":[
			{"Effect":"Allow","Action":"sts:AssumeRole","Principal":{"Service":"lambda.amazonaws.com"}}]}`)})
	if err != nil {
		t.Fatal(err)
	}
	client := lambda.New(lambda.Options{Region: region, BaseEndpoint: &url, Credentials: anyone})
	_, err = client.CreateFunction(t.Context(), &lambda.CreateFunctionInput{
		FunctionName: aws.String("living"), Handler: aws.String("bootstrap"), Runtime: lambdatypes.RuntimeProvidedal2023,
		Role: role.Role.Arn, Code: &lambdatypes.FunctionCode{ZipFile: zips[architecture()]},
		Architectures: []lambdatypes.Architecture{architecture()},
	})
	if err != nil {
		t.Fatal(err)
	}
	out, err := client.Invoke(t.Context(), &lambda.InvokeInput{FunctionName: aws.String("living"), Payload: []byte(`{"do":"say","text":"alive"}`)})
	if err != nil || string(out.Payload) != `"alive"` {
		t.Fatalf("%v, %v", out, err)
	}
}

func gone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(rest, "Z") // dead, and not yet collected by its parent
}

func descendants(t *testing.T, pid int) []int {
	t.Helper()
	all := children(t)
	found := append([]int(nil), all[pid]...)
	for i := 0; i < len(found); i++ {
		found = append(found, all[found[i]]...)
	}
	return found
}

// children is the running processes by their parent.
func children(t *testing.T) map[int][]int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	found := map[int][]int{}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + entry.Name() + "/stat")
		if err != nil {
			continue // it ended meanwhile
		}
		// The command's name stands in parentheses and may hold anything.
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		parent, err := strconv.Atoi(fields[1])
		if err != nil {
			t.Fatal(err)
		}
		found[parent] = append(found[parent], pid)
	}
	return found
}
