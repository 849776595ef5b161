package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/spf13/cobra"

	"cellwall.dev/cellwall/internal/adapter/ssmami"
	"cellwall.dev/cellwall/internal/fleet"
)

// pinReport is one line of fleet pin-ami.
type pinReport struct {
	Key     string `json:"key"`              // region/architecture
	Pinned  string `json:"pinned,omitempty"` // in the file before
	Current string `json:"current"`
}

func (r pinReport) stale() bool { return r.Pinned != r.Current }

func fleetPinAMI(a *app) *cobra.Command {
	var check, asJSON bool
	cmd := &cobra.Command{
		Use:   "pin-ami [FILE]",
		Short: "Write the current machine images of Amazon Linux 2023 into a fleet file",
		Long: `Look up the current machine image of Amazon Linux 2023 in each region and for each architecture that the fleet's cells
need, and write the ids into shard.http.amis of the fleet file, by default the one that --fleet names. Every other byte of the
file stays as it is. Keys that are not there are added, so that a new region needs no id by hand: begin with amis: {}.

The ids come from the public parameters of AWS Systems Manager, which any account may read (ssm:GetParameter); the AWS
credentials need to be of no particular account. When a region does not answer, nothing is written.

With --check nothing is written, either; exit status 3 when an image is not the current one. With --json each image is an
object on a line. New images come to the shards with the next deployment.`,
		Args: usageArgs(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			file := a.fleetFile
			if len(args) == 1 {
				file = args[0]
			}
			if !check {
				if err := replaceable(file); err != nil {
					return err
				}
			}
			data, f, err := a.loadUnpinned(file)
			if err != nil {
				return err
			}
			keys := f.ImageKeys()
			if len(keys) == 0 {
				return usagef("%s has no shard.http, and so no machine images", file)
			}
			reports, err := currentImages(cmd.Context(), f, keys)
			if err != nil {
				return err
			}
			stale, images := 0, map[string]string{}
			for _, r := range reports {
				if images[r.Key] = r.Current; r.stale() {
					stale++
				}
			}
			if stale > 0 && !check {
				if err := writePinned(file, data, images); err != nil {
					return err
				}
			}
			if err := a.printPins(reports, check, asJSON); err != nil {
				return err
			}
			if stale > 0 && check {
				return hint(foundf("%s of %s %s not current", count(stale, "image"), file, isOrAre(stale)), "cellwall fleet pin-ami %s writes them", quote(file))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "write nothing, and end with status 3 when an image is not current")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return cmd
}

// replaceable refuses what is there and can be read, but has no content that could be another one afterwards.
func replaceable(file string) error {
	info, err := os.Stat(file)
	if err != nil || info.Mode().IsRegular() {
		return nil // whoever reads it says what is wrong
	}
	return hint(usagef("%s is not a regular file: the images cannot be written into it", file), "name the fleet file itself, or give --check, which writes nothing")
}

func isOrAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// loadUnpinned is loadFleetFrom for a file whose images may not be there, with its bytes.
func (a *app) loadUnpinned(file string) ([]byte, *fleet.Fleet, error) {
	data, err := readSmall(file)
	if err != nil {
		return nil, nil, a.fleetError(file, fmt.Errorf("read the fleet file: %w", err))
	}
	f, err := fleet.ParseUnpinned(file, data)
	return data, f, a.fleetError(file, err)
}

// currentImages looks up the image of each key, one region after another.
func currentImages(ctx context.Context, f *fleet.Fleet, keys []string) ([]pinReport, error) {
	base, err := config.LoadDefaultConfig(ctx, config.WithDefaultRegion(f.Directory.Region))
	if err != nil {
		return nil, hint(fmt.Errorf("find AWS credentials: %w", err), "set AWS_PROFILE, or sign in with the AWS CLI")
	}
	var reports []pinReport
	for _, key := range keys {
		region, architecture, _ := strings.Cut(key, "/")
		client := ssm.NewFromConfig(base, func(o *ssm.Options) { o.Region = region })
		id, err := ssmami.Latest(ctx, client, architecture)
		if err != nil {
			return nil, hint(fmt.Errorf("region %s: %w: nothing was written", region, err), "check that you are signed in to AWS (AWS_PROFILE), and that the region is enabled in that account")
		}
		reports = append(reports, pinReport{key, f.Shard.HTTP.AMIs[key], id})
	}
	return reports, nil
}

// writePinned replaces the file, where a link leads to it, as a whole, unless somebody changed it meanwhile.
func writePinned(file string, data []byte, images map[string]string) error {
	out, err := fleet.Pin(file, data, images)
	if err != nil {
		return usagef("%s: %w", file, err)
	}
	fail := func(err error) error { return fmt.Errorf("write the images into %s: %w", file, err) }
	path, err := filepath.EvalSymlinks(file)
	if err != nil {
		return fail(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return fail(err)
	}
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fail(err)
	}
	_, err = temp.Write(out)
	if err == nil {
		err = temp.Chmod(info.Mode().Perm())
	}
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err == nil {
		var now []byte
		if now, err = os.ReadFile(path); err == nil && !bytes.Equal(now, data) {
			err = foundf("it was changed meanwhile: give the command again")
		}
	}
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return errors.Join(fail(err), os.Remove(temp.Name()))
	}
	return nil
}

func (a *app) printPins(reports []pinReport, check, asJSON bool) error {
	if asJSON {
		for _, r := range reports {
			if err := a.json(r); err != nil {
				return err
			}
		}
		return nil
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "region and architecture\tpinned\tcurrent\t")
	for _, r := range reports {
		state := "is current"
		switch {
		case r.stale() && check:
			state = "is not current"
		case r.stale():
			state = "written"
		}
		pinned := r.Pinned
		if pinned == "" {
			pinned = "none"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.Key, pinned, r.Current, state)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write the images: %w", err)
	}
	return nil
}
