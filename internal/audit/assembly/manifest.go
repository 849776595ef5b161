package assembly

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"cellwall.dev/cellwall/internal/audit"
	"cellwall.dev/cellwall/internal/template"
)

// manifest is as much of a cloud assembly's manifest.json as the audit needs. The format is
// cloud-assembly-schema of the AWS CDK.
type manifest struct {
	Version   string              `json:"version"`
	Artifacts map[string]artifact `json:"artifacts"`
	Missing   []struct {
		Key string `json:"key"`
	} `json:"missing"`
}

type artifact struct {
	Type        string                       `json:"type"`
	Environment string                       `json:"environment"` // aws://ACCOUNT/REGION
	Properties  properties                   `json:"properties"`
	DisplayName string                       `json:"displayName"` // the construct path
	Metadata    map[string][]json.RawMessage `json:"metadata"`    // by construct path
	// Dependencies are the artifacts of the same assembly that are deployed before this one.
	Dependencies []string `json:"dependencies"`
	// MetadataFile holds Metadata when it is too large for the manifest.
	MetadataFile string `json:"additionalMetadataFile"`
}

type properties struct {
	TemplateFile  string            `json:"templateFile"`
	StackName     string            `json:"stackName"`
	Tags          map[string]string `json:"tags"`
	Parameters    map[string]string `json:"parameters"`
	DirectoryName string            `json:"directoryName"` // of a nested assembly
	File          string            `json:"file"`          // of an asset manifest
}

// Artifact types that the audit follows.
const (
	artifactStack    = "aws:cloudformation:stack"
	artifactAssembly = "cdk:cloud-assembly"
	artifactAssets   = "cdk:asset-manifest"
)

// knownSchema is the newest major version of cloud-assembly-schema whose manifests this package is
// known to read. CDK raises it often, mostly for fields that no audit needs, so a newer one is read as
// well and named in the report.
const knownSchema = 55

// otherArtifacts are the artifact types in which nothing is deployed.
var otherArtifacts = map[string]bool{artifactAssets: true, "cdk:tree": true, "cdk:feature-flag-report": true, "none": true}

// versionNote says what is unknown of a manifest's version, or "".
func versionNote(version string) string {
	major, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(major)
	switch {
	case err != nil || n < 0:
		return fmt.Sprintf("the manifest's version %q is none of cloud-assembly-schema: what it holds may be misread", version)
	case n > knownSchema:
		return fmt.Sprintf("the manifest's version %s is newer than %d, the newest known one: what is new in it was not seen", version, knownSchema)
	}
	return ""
}

// assetManifest says which file stands behind an asset's hash.
type assetManifest struct {
	Files map[string]struct {
		Source struct {
			Path string `json:"path"`
		} `json:"source"`
	} `json:"files"`
}

// decodeStrict checks for duplicate keys, depth and trailing text, then decodes into v.
func decodeStrict(data []byte, v any) error {
	if _, err := template.DecodeJSON(data); err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("not of the expected form: %w", err)
	}
	return nil
}

// environment takes aws://ACCOUNT/REGION apart; what CDK does not know is "".
func environment(s string) (account, region string, err error) {
	rest, ok := strings.CutPrefix(s, "aws://")
	account, region, ok2 := strings.Cut(rest, "/")
	if !ok || !ok2 {
		return "", "", fmt.Errorf("environment %q is not aws://ACCOUNT/REGION", s)
	}
	if account == "unknown-account" {
		account = ""
	}
	if region == "unknown-region" {
		region = ""
	}
	return account, region, nil
}

// readMetadata reads a stack's metadata: construct paths by logical id, and the rules that its author
// acknowledged.
func readMetadata(meta map[string][]json.RawMessage) (paths map[string]string, acknowledged []audit.Acknowledgement) {
	paths = map[string]string{}
	for _, path := range slices.Sorted(maps.Keys(meta)) { // sorted, so that of two paths always the same one stays
		for _, raw := range meta[path] {
			var e struct {
				Type string `json:"type"`
				Data any    `json:"data"`
			}
			if json.Unmarshal(raw, &e) != nil {
				continue
			}
			at := strings.TrimPrefix(path, "/")
			switch data := e.Data.(type) {
			case string:
				if e.Type == "aws:cdk:logicalId" {
					paths[data] = at
				}
			case map[string]any:
				if e.Type != "aws:cdk:acknowledged-rules" {
					continue
				}
				for _, rule := range slices.Sorted(maps.Keys(data)) {
					reason, _ := data[rule].(string)
					acknowledged = append(acknowledged, audit.Acknowledgement{Path: at, Rule: rule, Reason: reason})
				}
			}
		}
	}
	return paths, acknowledged
}
