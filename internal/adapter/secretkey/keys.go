package secretkey

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// readAgain is how long the secret is left alone after a look for a version that it did not have.
const readAgain = 5 * time.Second

// Keys are the versions of one cell's key, read together. A version never changes, so that the secret is
// read again for one alone that was not there before. It is safe for concurrent use.
type Keys struct {
	client Client
	secret string

	turn chan struct{} // has room for whoever reads the secret
	next time.Time     // when it may be read again; of whoever has the turn
	last error         // of the reading before that, likewise

	mu    sync.Mutex
	known versions
}

// New returns the versions of a cell's key. Nothing is read before the first is asked for, so that a router
// starts while Secrets Manager does not answer.
func New(client Client, secret string) *Keys {
	return &Keys{client: client, secret: secret, turn: make(chan struct{}, 1)}
}

// Key returns one version. One that is not known has the secret read, as Read has it, unless that was done
// within the last 5 s; ErrVersion when it is not there then, either, and the error of that reading when there
// was one.
func (k *Keys) Key(ctx context.Context, version string) ([]byte, error) {
	key, err := k.have(version)
	if err == nil {
		return key, nil
	}
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the placement keys from secret %s: %w", k.secret, ctx.Err())
	}
	if key, err = k.have(version); err == nil {
		return key, nil
	}
	if time.Now().Before(k.next) {
		if k.last != nil {
			err = k.last
		}
		return nil, err
	}
	known, err := readAll(ctx, k.client, k.secret)
	if ctx.Err() == nil { // who left says nothing of the secret
		k.next, k.last = time.Now().Add(readAgain), err
	}
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	k.known = known
	k.mu.Unlock()
	return k.have(version)
}

func (k *Keys) have(version string) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.known.version(k.secret, version)
}
