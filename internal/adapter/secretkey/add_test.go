package secretkey

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
)

// vault is a Writer with one secret, as Secrets Manager keeps it: values by id, and labels that move.
type vault struct {
	mu      sync.Mutex
	values  map[string]string // by id
	stages  map[string]string // id by label
	between func()            // called once after a value was put, before a label moves
	lost    bool              // the next answer to a move is lost
	refuse  error             // of each move
}

func newVault(value string) *vault {
	return &vault{values: map[string]string{"v0": value}, stages: map[string]string{stageCurrent: "v0"}}
}

func (v *vault) GetSecretValue(_ context.Context, in *secretsmanager.GetSecretValueInput, _ ...func(*secretsmanager.Options)) (*secretsmanager.GetSecretValueOutput, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if *in.SecretId != name || in.VersionId != nil {
		return nil, errors.New("no such secret")
	}
	stage := stageCurrent
	if in.VersionStage != nil {
		stage = *in.VersionStage
	}
	id := v.stages[stage]
	return &secretsmanager.GetSecretValueOutput{SecretString: aws.String(v.values[id]), VersionId: &id}, nil
}

func (v *vault) PutSecretValue(_ context.Context, in *secretsmanager.PutSecretValueInput, _ ...func(*secretsmanager.Options)) (*secretsmanager.PutSecretValueOutput, error) {
	v.mu.Lock()
	id := fmt.Sprintf("v%d", len(v.values))
	v.values[id] = *in.SecretString
	if len(in.VersionStages) == 0 {
		v.stages[stageCurrent] = id
	}
	for _, stage := range in.VersionStages {
		v.stages[stage] = id
	}
	between := v.between
	v.between = nil
	v.mu.Unlock()
	if between != nil {
		between()
	}
	return &secretsmanager.PutSecretValueOutput{VersionId: &id}, nil
}

func (v *vault) UpdateSecretVersionStage(_ context.Context, in *secretsmanager.UpdateSecretVersionStageInput, _ ...func(*secretsmanager.Options)) (*secretsmanager.UpdateSecretVersionStageOutput, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.refuse != nil {
		return nil, v.refuse
	}
	if v.stages[*in.VersionStage] != aws.ToString(in.RemoveFromVersionId) {
		return nil, errors.New("InvalidParameterException")
	}
	v.stages[*in.VersionStage] = *in.MoveToVersionId
	if v.lost {
		v.lost = false
		return nil, errors.New("connection reset")
	}
	return &secretsmanager.UpdateSecretVersionStageOutput{}, nil
}

// fresh asks for one version, unless it is there.
func fresh(version string, digit byte) func([]string) (map[string][]byte, error) {
	return func(have []string) (map[string][]byte, error) {
		if slices.Contains(have, version) {
			return nil, nil
		}
		return map[string][]byte{version: bytes.Repeat([]byte{digit}, keyBytes)}, nil
	}
}

func TestAdd(t *testing.T) {
	v := newVault(`{"1":"` + one + `","own":"` + two + `"}`)
	for i, want := range []string{"[2]", "[]"} { // repeated, it is found done
		if added, err := Add(t.Context(), v, name, fresh("2", 7)); err != nil || fmt.Sprint(added) != want {
			t.Errorf("time %d: %v, %v", i+1, added, err)
		}
	}
	all, err := All(t.Context(), v, name)
	if err != nil || len(all) != 3 || all["1"][0] != 0xa1 || all["own"][0] != 0xb2 || !bytes.Equal(all["2"], bytes.Repeat([]byte{7}, keyBytes)) {
		t.Errorf("%x, %v", all, err)
	}
}

// TestAddTakesNothingAway: of many who add at once, nobody's version is lost.
func TestAddTakesNothingAway(t *testing.T) {
	v := newVault(`{"1":"` + one + `"}`)
	// One who is always in between. Each is interrupted once, and begins anew.
	for i := range 4 {
		rival := fmt.Sprint("rival-", i)
		v.between = func() {
			if added, err := Add(t.Context(), v, name, fresh(rival, 1)); err != nil || len(added) != 1 {
				t.Errorf("%s: %v, %v", rival, added, err)
			}
		}
		if added, err := Add(t.Context(), v, name, fresh(fmt.Sprint("mine-", i), 2)); err != nil || len(added) != 1 {
			t.Errorf("mine: %v, %v", added, err)
		}
	}
	// The same version by two: the first one's stands, and the other finds it there.
	v.between = func() {
		if added, err := Add(t.Context(), v, name, fresh("2", 1)); err != nil || len(added) != 1 {
			t.Errorf("the first: %v, %v", added, err)
		}
	}
	if added, err := Add(t.Context(), v, name, fresh("2", 2)); err != nil || len(added) != 0 {
		t.Errorf("the second: %v, %v", added, err)
	}
	all, err := All(t.Context(), v, name)
	if err != nil || len(all) != 10 || all["2"][0] != 1 {
		t.Errorf("%d versions, %x, %v", len(all), all["2"], err)
	}
}

func TestAddWhoseAnswerIsLost(t *testing.T) {
	v := newVault(`{"1":"` + one + `"}`)
	v.lost = true
	if added, err := Add(t.Context(), v, name, fresh("2", 7)); err != nil || fmt.Sprint(added) != "[2]" {
		t.Errorf("%v, %v", added, err)
	}
}

func TestAddRefuses(t *testing.T) {
	whole := `{"1":"` + one + `"}`
	denied := errors.New("AccessDeniedException")
	for what, c := range map[string]struct {
		value   string
		refuse  error
		missing func([]string) (map[string][]byte, error)
		says    string
	}{
		"a version that is there": {whole, nil, func([]string) (map[string][]byte, error) {
			return map[string][]byte{"1": make([]byte, keyBytes)}, nil
		}, "a version never changes"},
		"half a key": {whole, nil, func([]string) (map[string][]byte, error) { return map[string][]byte{"2": make([]byte, 16)}, nil }, "16 bytes"},
		"a refusal":  {whole, nil, func([]string) (map[string][]byte, error) { return nil, denied }, denied.Error()},
		"no right":   {whole, denied, fresh("2", 7), denied.Error()},
		"no object":  {`[]`, nil, fresh("2", 7), "want an object"},
	} {
		v := newVault(c.value)
		v.refuse = c.refuse
		added, err := Add(t.Context(), v, name, c.missing)
		if err == nil || len(added) > 0 || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "a1a1") {
			t.Errorf("%s: %v, %v", what, added, err)
		}
		if now := v.values[v.stages[stageCurrent]]; now != c.value {
			t.Errorf("%s: the secret is now %s", what, now)
		}
	}
	// Somebody who never lets go.
	v := newVault(whole)
	var rival func()
	n := 0
	rival = func() {
		n++
		v.PutSecretValue(t.Context(), &secretsmanager.PutSecretValueInput{SecretString: aws.String(whole)})
		v.between = rival
	}
	v.between = rival
	if added, err := Add(t.Context(), v, name, fresh("2", 7)); !errors.Is(err, ErrBusy) || n != addTries {
		t.Errorf("after %d tries: %v, %v", n, added, err)
	}
}
