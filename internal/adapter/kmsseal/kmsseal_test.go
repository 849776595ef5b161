package kmsseal

import (
	"context"
	"errors"
	"maps"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	"cellwall.dev/cellwall/internal/snapshot"
)

// stub answers as it is told, and looks at what it is asked.
type stub struct {
	t          *testing.T
	decryptErr error
	verifyErr  error
	valid      bool
}

func (s stub) Decrypt(_ context.Context, in *kms.DecryptInput, _ ...func(*kms.Options)) (*kms.DecryptOutput, error) {
	if want := map[string]string{"service": "orders", "cell": "eu-1", "purpose": "snapshot"}; *in.KeyId != "alias/key" || !maps.Equal(in.EncryptionContext, want) {
		s.t.Errorf("decrypt with key %s for %v", *in.KeyId, in.EncryptionContext)
	}
	return &kms.DecryptOutput{Plaintext: []byte("key")}, s.decryptErr
}

func (s stub) VerifyMac(_ context.Context, in *kms.VerifyMacInput, _ ...func(*kms.Options)) (*kms.VerifyMacOutput, error) {
	if *in.KeyId != "alias/mac" || in.MacAlgorithm != types.MacAlgorithmSpecHmacSha256 {
		s.t.Errorf("verify by key %s and %s", *in.KeyId, in.MacAlgorithm)
	}
	return &kms.VerifyMacOutput{MacValid: s.valid}, s.verifyErr
}

// TestWhatKMSSays tells its judgements from its failures, in the words of KMS's API.
func TestWhatKMSSays(t *testing.T) {
	down := errors.New("no route")
	router := func(s stub) *Router {
		s.t = t
		return ForRouter(s, Config{Key: "alias/key", MACKey: "alias/mac", Service: "orders", Cell: "eu-1"})
	}
	unwrap := func(err error) error {
		_, got := router(stub{decryptErr: err}).Unwrap(t.Context(), []byte("wrapped"))
		return got
	}
	verify := func(valid bool, err error) error {
		return router(stub{valid: valid, verifyErr: err}).Verify(t.Context(), []byte("message"), []byte("mac"))
	}
	for name, c := range map[string]struct{ err, is error }{
		"right":                {unwrap(nil), nil},
		"wrong context":        {unwrap(&types.InvalidCiphertextException{}), snapshot.ErrForged},
		"wrong key":            {unwrap(&types.IncorrectKeyException{}), snapshot.ErrForged},
		"down":                 {unwrap(down), down},
		"disabled":             {unwrap(&types.DisabledException{}), &types.DisabledException{}},
		"right code":           {verify(true, nil), nil},
		"wrong code":           {verify(false, &types.KMSInvalidMacException{}), snapshot.ErrForged},
		"code not confirmed":   {verify(false, nil), snapshot.ErrForged},
		"no answer on a code":  {verify(false, down), down},
		"key of code disabled": {verify(false, &types.DisabledException{}), &types.DisabledException{}},
	} {
		var disabled *types.DisabledException
		switch {
		case c.is == nil && c.err != nil, c.is == snapshot.ErrForged && !errors.Is(c.err, c.is), c.is == down && !errors.Is(c.err, down),
			errors.As(c.is, &disabled) && (!errors.As(c.err, &disabled) || snapshot.Refused(c.err)):
			t.Errorf("%s: %v, want %v", name, c.err, c.is)
		}
	}
}
