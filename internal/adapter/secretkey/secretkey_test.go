package secretkey

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
)

// secret is a Client with one secret.
type secret struct {
	name, value string
	err         error
}

func (s secret) GetSecretValue(_ context.Context, in *secretsmanager.GetSecretValueInput, _ ...func(*secretsmanager.Options)) (*secretsmanager.GetSecretValueOutput, error) {
	if s.err != nil {
		return nil, s.err
	}
	if aws.ToString(in.SecretId) != s.name {
		return nil, errors.New("no such secret")
	}
	return &secretsmanager.GetSecretValueOutput{SecretString: aws.String(s.value)}, nil
}

const name = "cellwall/orders/eu-1/placement-key"

var (
	one = strings.Repeat("a1", 32)
	two = strings.Repeat("B2", 32)
)

func TestRead(t *testing.T) {
	client := secret{name: name, value: `{"1":"` + one + `","2":"` + two + `"}`}
	for version, want := range map[string]byte{"1": 0xa1, "2": 0xb2} {
		key, err := Read(t.Context(), client, name, version)
		if err != nil || !bytes.Equal(key, bytes.Repeat([]byte{want}, 32)) {
			t.Errorf("version %s: %x, %v", version, key, err)
		}
	}
}

// dated is a Client that says when the secret got its value, or does not.
type dated struct {
	at  *time.Time
	err error
}

func (d dated) GetSecretValue(context.Context, *secretsmanager.GetSecretValueInput, ...func(*secretsmanager.Options)) (*secretsmanager.GetSecretValueOutput, error) {
	return &secretsmanager.GetSecretValueOutput{CreatedDate: d.at}, d.err
}

func TestMade(t *testing.T) {
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	if got, err := Made(t.Context(), dated{at: &at}, name); err != nil || !got.Equal(at) {
		t.Errorf("%v, %v", got, err)
	}
	down := errors.New("no route")
	if _, err := Made(t.Context(), dated{err: down}, name); !errors.Is(err, down) || !strings.Contains(err.Error(), name) {
		t.Errorf("down: %v", err)
	}
	if _, err := Made(t.Context(), dated{}, name); err == nil {
		t.Error("no date is a date")
	}
}

func TestReadRefuses(t *testing.T) {
	for what, value := range map[string]string{
		"version missing": `{"2":"` + one + `"}`, "short": `{"1":"` + one[2:] + `"}`, "long": `{"1":"` + one + `00"}`,
		"not hexadecimal": `{"1":"` + strings.Repeat("zz", 32) + `"}`, "empty": ``, "no object": `"` + one + `"`, "number": `{"1":5}`, "empty key": `{"1":""}`,
	} {
		key, err := Read(t.Context(), secret{name: name, value: value}, name, "1")
		if err == nil || key != nil {
			t.Errorf("%s: %x", what, key)
			continue
		}
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%s: the error does not name the secret: %v", what, err)
		}
		for _, leak := range []string{"a1a1", "zzzz"} {
			if strings.Contains(err.Error(), leak) {
				t.Errorf("%s: the error shows the key: %v", what, err)
			}
		}
	}
	down := errors.New("no route")
	if _, err := Read(t.Context(), secret{err: down}, name, "1"); !errors.Is(err, down) {
		t.Errorf("Secrets Manager down: %v", err)
	}
}

// hanging is a Client that answers when it is told to stop.
type hanging struct{}

func (hanging) GetSecretValue(ctx context.Context, _ *secretsmanager.GetSecretValueInput, _ ...func(*secretsmanager.Options)) (*secretsmanager.GetSecretValueOutput, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestAStoreThatHangsIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		_, err := Read(t.Context(), hanging{}, name, "1")
		if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took != readTimeout { // by the bubble's clock
			t.Errorf("after %v: %v", took, err)
		}
	})
}

func TestATryThatHangsLeavesTimeForAnother(t *testing.T) {
	release := make(chan struct{})
	var tries atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if tries.Add(1) == 1 {
			<-release
			return
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		fmt.Fprintf(w, `{"SecretString":%q}`, `{"1":"`+one+`"}`)
	}))
	defer server.Close()
	defer close(release)
	client := secretsmanager.New(secretsmanager.Options{
		Region: "eu-west-1", BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""),
	}, ForRequests)
	if _, err := Read(t.Context(), client, name, "1"); err != nil {
		t.Errorf("after %d tries: %v", tries.Load(), err)
	}
}
