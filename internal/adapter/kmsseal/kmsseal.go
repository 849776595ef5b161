// Package kmsseal seals and opens a cell's snapshot by two keys of AWS KMS, neither of which leaves it: one
// encrypts each snapshot's data key, under an encryption context that names service, cell and purpose; the
// other, an HMAC key, makes the code that says who wrote it.
//
// Permissions, each on its key alone:
//
//	keeper   kms:GenerateDataKey, kms:Decrypt   on the encrypting key
//	         kms:GenerateMac                    on the HMAC key
//	routers  kms:Decrypt                        on the encrypting key
//	         kms:VerifyMac                      on the HMAC key
//
// The encrypting key's grants are to be conditioned on kms:EncryptionContext:service, :cell and :purpose.
// A router cannot make a code. The keeper verifies the last snapshot's by making it again, since HMAC is
// deterministic, and needs no kms:VerifyMac.
package kmsseal

import (
	"context"
	"crypto/hmac"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	"cellwall.dev/cellwall/internal/fleet/names"
	"cellwall.dev/cellwall/internal/snapshot"
)

// How long a try takes at most, and how many there are, for keeper and routers.
const (
	connectTimeout = time.Second
	tryTimeout     = 2 * time.Second
	tries          = 2
)

// Brief makes a client whose requests end soon, whatever comes of them.
func Brief(o *kms.Options) {
	o.HTTPClient = awshttp.NewBuildableClient().WithTimeout(tryTimeout).
		WithDialerOptions(func(d *net.Dialer) { d.Timeout = connectTimeout })
	o.Retryer = retry.NewStandard(func(r *retry.StandardOptions) { r.MaxAttempts = tries })
}

// Config names the keys, by ARN, id or alias, and whose snapshot it is.
type Config struct {
	Key, MACKey   string
	Service, Cell string
}

func (c Config) context() map[string]string {
	return map[string]string{"service": c.Service, "cell": c.Cell, "purpose": names.SnapshotPurpose}
}

const algorithm = types.MacAlgorithmSpecHmacSha256

// RouterClient is the part of *kms.Client that routers need.
type RouterClient interface {
	Decrypt(context.Context, *kms.DecryptInput, ...func(*kms.Options)) (*kms.DecryptOutput, error)
	VerifyMac(context.Context, *kms.VerifyMacInput, ...func(*kms.Options)) (*kms.VerifyMacOutput, error)
}

// KeeperClient is the part that the keeper needs.
type KeeperClient interface {
	Decrypt(context.Context, *kms.DecryptInput, ...func(*kms.Options)) (*kms.DecryptOutput, error)
	GenerateDataKey(context.Context, *kms.GenerateDataKeyInput, ...func(*kms.Options)) (*kms.GenerateDataKeyOutput, error)
	GenerateMac(context.Context, *kms.GenerateMacInput, ...func(*kms.Options)) (*kms.GenerateMacOutput, error)
}

// Router opens snapshots.
type Router struct {
	client RouterClient
	config Config
}

// Keeper seals snapshots, and opens the last one.
type Keeper struct {
	client KeeperClient
	config Config
}

var (
	_ snapshot.Opener = (*Router)(nil)
	_ snapshot.Opener = (*Keeper)(nil)
	_ snapshot.Sealer = (*Keeper)(nil)
)

// ForRouter returns what a router opens with.
func ForRouter(client RouterClient, c Config) *Router { return &Router{client, c} }

// ForKeeper returns what the keeper seals with.
func ForKeeper(client KeeperClient, c Config) *Keeper { return &Keeper{client, c} }

// Verify implements snapshot.Opener.
func (r *Router) Verify(ctx context.Context, message, mac []byte) error {
	out, err := r.client.VerifyMac(ctx, &kms.VerifyMacInput{KeyId: &r.config.MACKey, MacAlgorithm: algorithm, Message: message, Mac: mac})
	var invalid *types.KMSInvalidMacException
	switch {
	case errors.As(err, &invalid):
		return fmt.Errorf("%w: KMS did not make its code with key %s", snapshot.ErrForged, r.config.MACKey)
	case err != nil:
		return fmt.Errorf("verify the snapshot's code with key %s: %w", r.config.MACKey, err)
	case !out.MacValid: // the API promises an exception instead
		return fmt.Errorf("%w: KMS does not confirm its code", snapshot.ErrForged)
	}
	return nil
}

// Unwrap implements snapshot.Opener.
func (r *Router) Unwrap(ctx context.Context, wrapped []byte) (snapshot.Secret, error) {
	return unwrap(ctx, r.client, r.config, wrapped)
}

// DataKey implements snapshot.Sealer.
func (k *Keeper) DataKey(ctx context.Context) (snapshot.Secret, []byte, error) {
	out, err := k.client.GenerateDataKey(ctx, &kms.GenerateDataKeyInput{
		KeyId: &k.config.Key, KeySpec: types.DataKeySpecAes256, EncryptionContext: k.config.context(),
	})
	if err != nil {
		return nil, nil, fmt.Errorf("generate a data key with key %s: %w", k.config.Key, err)
	}
	return out.Plaintext, out.CiphertextBlob, nil
}

// Sign implements snapshot.Sealer.
func (k *Keeper) Sign(ctx context.Context, message []byte) ([]byte, error) {
	out, err := k.client.GenerateMac(ctx, &kms.GenerateMacInput{KeyId: &k.config.MACKey, MacAlgorithm: algorithm, Message: message})
	if err != nil {
		return nil, fmt.Errorf("sign the snapshot with key %s: %w", k.config.MACKey, err)
	}
	return out.Mac, nil
}

// Verify implements snapshot.Opener.
func (k *Keeper) Verify(ctx context.Context, message, mac []byte) error {
	want, err := k.Sign(ctx, message)
	if err != nil {
		return err
	}
	if !hmac.Equal(want, mac) {
		return fmt.Errorf("%w: KMS did not make its code with key %s", snapshot.ErrForged, k.config.MACKey)
	}
	return nil
}

// Unwrap implements snapshot.Opener.
func (k *Keeper) Unwrap(ctx context.Context, wrapped []byte) (snapshot.Secret, error) {
	return unwrap(ctx, k.client, k.config, wrapped)
}

type decrypter interface {
	Decrypt(context.Context, *kms.DecryptInput, ...func(*kms.Options)) (*kms.DecryptOutput, error)
}

func unwrap(ctx context.Context, client decrypter, c Config, wrapped []byte) (snapshot.Secret, error) {
	out, err := client.Decrypt(ctx, &kms.DecryptInput{KeyId: &c.Key, CiphertextBlob: wrapped, EncryptionContext: c.context()})
	var invalid *types.InvalidCiphertextException
	var other *types.IncorrectKeyException
	switch {
	case errors.As(err, &invalid), errors.As(err, &other):
		return nil, fmt.Errorf("%w: KMS did not wrap its data key with key %s for cell %q", snapshot.ErrForged, c.Key, c.Cell)
	case err != nil:
		return nil, fmt.Errorf("unwrap the snapshot's data key with key %s: %w", c.Key, err)
	}
	return out.Plaintext, nil
}
