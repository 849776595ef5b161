package awsemu_test

import (
	"bytes"
	gocontext "context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
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

// unlessLost is the error of a call that was made once, unless the emulator performed it and the answer's connection was closed
// before it was read: rarely, Go's client does that by itself (aws/aws-sdk-go-v2#2737), and the SDK calls again by default.
func unlessLost(err error) error {
	var response *awshttp.ResponseError
	if errors.Is(err, net.ErrClosed) && errors.As(err, &response) && response.HTTPStatusCode() == http.StatusOK {
		return nil
	}
	return err
}

// onceMetrics is for metrics: what is put twice counts twice.
func onceMetrics(o *cloudwatch.Options) { o.Retryer = aws.NopRetryer{} }

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
