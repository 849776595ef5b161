package assembly

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"cellwall.dev/cellwall/internal/audit"
)

// AcknowledgedFile is beside the manifest of an assembly of which something is acknowledged above all stacks, at a
// Stage: the CDK writes what is acknowledged at stacks and below into the manifest, and nowhere what is above.
const AcknowledgedFile = "cellwall.acknowledged.json"

const acknowledgedSchema = "cellwall.acknowledged/v1"

type acknowledgedFile struct {
	Schema       string                  `json:"schema"`
	Acknowledged []audit.Acknowledgement `json:"acknowledged"`
}

// EncodeAcknowledged is the content of an AcknowledgedFile.
func EncodeAcknowledged(all []audit.Acknowledgement) ([]byte, error) {
	data, err := json.MarshalIndent(acknowledgedFile{acknowledgedSchema, all}, "", " ")
	return append(data, '\n'), err
}

// acknowledged are what the AcknowledgedFile says, none where there is none.
func (l *loader) acknowledged() []audit.Acknowledgement {
	if _, err := fs.Stat(l.fsys, AcknowledgedFile); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	data, ok := l.read(AcknowledgedFile, maxFile)
	if !ok {
		return nil
	}
	var f acknowledgedFile
	err := decodeStrict(data, &f)
	if err == nil && f.Schema != acknowledgedSchema {
		err = fmt.Errorf("its schema is %q, not %s: synthesise anew with the cellwall that audits", f.Schema, acknowledgedSchema)
	}
	if err != nil {
		l.fail(AcknowledgedFile, err)
		return nil
	}
	return f.Acknowledged
}
