package awsemu_test

import (
	"bytes"
	gocontext "context"
	"fmt"
	"os"
	"sync"
	"testing"

	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

type sqsAttribute = sqstypes.QueueAttributeName

// said is what the shared emulator wrote.
var said buffer

func TestMain(m *testing.M) {
	if os.Getenv(helperVariable) != "" {
		helper()
		return
	}
	code := m.Run()
	if e, err := emulator(); err == nil {
		e.Close()
	}
	if code != 0 {
		fmt.Fprintln(os.Stderr, "the emulator wrote:\n"+said.String())
	}
	os.Exit(code)
}

// context is for what outlives single tests.
func context() gocontext.Context { return gocontext.Background() }

type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
