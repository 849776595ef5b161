package secretkey

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
)

// changing is a Client of a secret that tests change. It takes a moment, and counts its readings.
type changing struct {
	mu    sync.Mutex
	now   secret
	reads atomic.Int32
}

func (c *changing) GetSecretValue(ctx context.Context, in *secretsmanager.GetSecretValueInput, _ ...func(*secretsmanager.Options)) (*secretsmanager.GetSecretValueOutput, error) {
	c.reads.Add(1)
	time.Sleep(time.Millisecond)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now.GetSecretValue(ctx, in)
}

func (c *changing) set(value string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = secret{name, value, err}
}

func TestNothingIsReadAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c changing
		down := errors.New("no route")
		c.set("", down)
		k := New(&c, name)
		if n := c.reads.Load(); n != 0 {
			t.Errorf("the secret was read %d times before anybody asked", n)
		}
		for range 10 { // who asks next is told the same, without asking anew
			if _, err := k.Key(t.Context(), "1"); !errors.Is(err, down) {
				t.Errorf("Secrets Manager down: %v", err)
			}
		}
		if n := c.reads.Load(); n != 1 {
			t.Errorf("the secret was read %d times", n)
		}
		c.set(`{"1":"`+one+`"}`, nil)
		time.Sleep(readAgain)
		if key, err := k.Key(t.Context(), "1"); err != nil || !bytes.Equal(key, bytes.Repeat([]byte{0xa1}, 32)) {
			t.Errorf("once it answers: %x, %v", key, err)
		}
	})
}

func TestKeysRefuse(t *testing.T) {
	for what, value := range map[string]string{"empty": ``, "nothing": `{}`, "null": `null`, "no object": `[]`, "no key": `{"1":"` + one[2:] + `"}`} {
		if key, err := New(secret{name: name, value: value}, name).Key(t.Context(), "1"); err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "a1a1") {
			t.Errorf("%s: %x, %v", what, key, err)
		}
	}
	// One bad version keeps nobody from the others.
	k := New(secret{name: name, value: `{"1":"` + one + `","2":"zz"}`}, name)
	if key, err := k.Key(t.Context(), "1"); err != nil || !bytes.Equal(key, bytes.Repeat([]byte{0xa1}, 32)) {
		t.Errorf("version 1: %x, %v", key, err)
	}
	if _, err := k.Key(t.Context(), "2"); !errors.Is(err, ErrVersion) || strings.Contains(err.Error(), "zz") {
		t.Errorf("version 2: %v", err)
	}
}

// TestARotatedKeyIsFound: a version that came after the start is found by one reading for all who ask, and
// the known ones need none.
func TestARotatedKeyIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c changing
		c.set(`{"1":"`+one+`"}`, nil)
		k := New(&c, name)
		if _, err := k.Key(t.Context(), "1"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(readAgain)
		reads := func(want int32) {
			t.Helper()
			if n := c.reads.Load(); n != want {
				t.Errorf("the secret was read %d times, want %d", n, want)
			}
		}
		for range 100 {
			if _, err := k.Key(t.Context(), "1"); err != nil {
				t.Error(err)
			}
			if _, err := k.Key(t.Context(), "2"); !errors.Is(err, ErrVersion) {
				t.Errorf("a version that is not there: %v", err)
			}
		}
		reads(2)
		c.set(`{"1":"`+one+`","2":"`+two+`"}`, nil)
		time.Sleep(readAgain)
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if key, err := k.Key(t.Context(), "2"); err != nil || !bytes.Equal(key, bytes.Repeat([]byte{0xb2}, 32)) {
					t.Errorf("the new version: %x, %v", key, err)
				}
			})
		}
		wg.Wait()
		reads(3)

		// A store that is down says so once in a while, and takes away nothing.
		down := errors.New("no route")
		c.set("", down)
		time.Sleep(readAgain)
		if _, err := k.Key(t.Context(), "3"); !errors.Is(err, down) {
			t.Errorf("Secrets Manager down: %v", err)
		}
		if _, err := k.Key(t.Context(), "3"); !errors.Is(err, down) {
			t.Errorf("right after: %v", err)
		}
		reads(4)
		for _, version := range []string{"1", "2"} {
			if _, err := k.Key(t.Context(), version); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestWhoCannotWaitLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c changing
		c.set(`{"1":"`+one+`"}`, nil)
		k := New(&c, name)
		k.client = hanging{}
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := k.Key(t.Context(), "2"); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if _, err := k.Key(ctx, "2"); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second { // by the bubble's clock
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		wg.Wait()
	})
}
