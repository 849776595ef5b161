package secretkey

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
)

// Writer is the part of *secretsmanager.Client that adding a key needs.
type Writer interface {
	Client
	PutSecretValue(context.Context, *secretsmanager.PutSecretValueInput, ...func(*secretsmanager.Options)) (*secretsmanager.PutSecretValueOutput, error)
	UpdateSecretVersionStage(context.Context, *secretsmanager.UpdateSecretVersionStageInput, ...func(*secretsmanager.Options)) (*secretsmanager.UpdateSecretVersionStageOutput, error)
}

// The labels of a secret's values: the one that everybody reads, and one that waits to become it.
const (
	stageCurrent = "AWSCURRENT"
	stagePending = "AWSPENDING"
)

// addTries is how often keys are added to a secret that others change at the same time.
const addTries = 5

// ErrBusy means that others changed the secret each time when keys were to be added. Nothing was changed.
var ErrBusy = errors.New("others keep changing the secret")

// Add adds the keys that missing returns, who is told which versions are there, to those of a cell, and returns the
// versions that it added. It takes none away and changes none: with a version that is there it fails.
//
// PutSecretValue has no condition, and of two who read and put at once the later would take away the other's
// version. So the value is put beside the current one, and then takes its place on condition that this is still the
// one that was read (UpdateSecretVersionStage, RemoveFromVersionId). When it is not, all begins anew, and missing
// is asked again. What was put in vain stays without a label, and Secrets Manager deletes it.
func Add(ctx context.Context, client Writer, secret string, missing func(have []string) (map[string][]byte, error)) (added []string, err error) {
	for range addTries {
		keys, at, err := current(ctx, client, secret)
		if err != nil {
			return nil, err
		}
		more, err := missing(slices.Sorted(maps.Keys(keys)))
		if err != nil || len(more) == 0 {
			return nil, err
		}
		value, err := keys.with(secret, more)
		if err != nil {
			return nil, err
		}
		put, err := client.PutSecretValue(ctx, &secretsmanager.PutSecretValueInput{SecretId: &secret, SecretString: &value, VersionStages: []string{stagePending}})
		if err != nil {
			return nil, fmt.Errorf("add a placement key to secret %s: %w", secret, err)
		}
		_, moved := client.UpdateSecretVersionStage(ctx, &secretsmanager.UpdateSecretVersionStageInput{
			SecretId: &secret, VersionStage: aws.String(stageCurrent), MoveToVersionId: put.VersionId, RemoveFromVersionId: &at})
		if moved == nil {
			return slices.Sorted(maps.Keys(more)), nil
		}
		// It may have been done, and the answer lost; or somebody else was first.
		switch _, now, err := current(ctx, client, secret); {
		case err != nil:
			return nil, errors.Join(fmt.Errorf("add a placement key to secret %s: %w", secret, moved), err)
		case now == aws.ToString(put.VersionId):
			return slices.Sorted(maps.Keys(more)), nil
		case now == at:
			return nil, fmt.Errorf("add a placement key to secret %s: %w", secret, moved)
		}
	}
	return nil, fmt.Errorf("add a placement key to secret %s: %w", secret, ErrBusy)
}

// All returns every version of a cell's key, as Read has one.
func All(ctx context.Context, client Client, secret string) (map[string][]byte, error) {
	keys, err := readAll(ctx, client, secret)
	if err != nil {
		return nil, err
	}
	all := map[string][]byte{}
	for version := range keys {
		if all[version], err = keys.version(secret, version); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// current is the secret's value and its id.
func current(ctx context.Context, client Client, secret string) (versions, string, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	out, err := client.GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: &secret, VersionStage: aws.String(stageCurrent)})
	if err != nil {
		return nil, "", fmt.Errorf("read the placement keys from secret %s: %w", secret, err)
	}
	keys, err := parse(secret, aws.ToString(out.SecretString))
	return keys, aws.ToString(out.VersionId), err
}

// with is the value of a secret that has these keys, too.
func (v versions) with(secret string, more map[string][]byte) (string, error) {
	all := maps.Clone(v)
	for version, key := range more {
		if _, there := all[version]; there {
			return "", fmt.Errorf("add a placement key to secret %s: version %s is there, and a version never changes", secret, version)
		}
		if len(key) != keyBytes {
			return "", fmt.Errorf("add a placement key to secret %s: version %s has %d bytes, want %d", secret, version, len(key), keyBytes)
		}
		all[version] = hex.EncodeToString(key)
	}
	value, err := json.Marshal(all)
	return string(value), err
}
