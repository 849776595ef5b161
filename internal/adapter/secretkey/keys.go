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

	mu    sync.Mutex
	known versions
}

// Open reads all versions of a cell's key, as Read has them, in 5 s at most. A secret without any usable
// key is an error.
func Open(ctx context.Context, client Client, secret string) (*Keys, error) {
	known, err := readAll(ctx, client, secret)
	if err != nil {
		return nil, err
	}
	usable, last := 0, fmt.Errorf("secret %s holds no placement key: %w", secret, ErrVersion)
	for version := range known {
		if _, err := known.version(secret, version); err != nil {
			last = err
			continue
		}
		usable++
	}
	if usable == 0 {
		return nil, last
	}
	return &Keys{client: client, secret: secret, turn: make(chan struct{}, 1), known: known}, nil
}

// Key returns one version. One that is not known has the secret read again, unless that was done within the
// last 5 s; ErrVersion when it is not there then, either.
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
	if key, err = k.have(version); err == nil || time.Now().Before(k.next) {
		return key, err
	}
	known, err := readAll(ctx, k.client, k.secret)
	k.next = time.Now().Add(readAgain)
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
