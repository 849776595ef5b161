package cli

import (
	"fmt"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// namedFleet refuses a --fleet that was given and is no file, whether the command needs it or not:
// otherwise a slip would go unseen.
func (a *app) namedFleet(cmd *cobra.Command, _ []string) error {
	if !cmd.Flags().Changed("fleet") {
		return nil
	}
	info, err := os.Stat(a.fleetFile)
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a directory", a.fleetFile)
	}
	if err != nil {
		return hint(usagef("--fleet: %w", err), "name the fleet's description, or leave the flag out; docs/fleet.md has a sample")
	}
	return nil
}

// helpCommand is cobra's own, except that a word that is no command has status 2.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Print the help of a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || about == nil {
				about, rest = cmd.Root(), args
			}
			if len(rest) > 0 {
				return hint(usagef("unknown command %q for %s", rest[0], about.CommandPath()), "see %s --help", about.CommandPath())
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

// version is what the build recorded: the module's version, or the commit of a build from a clone.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "of an unknown build"
	}
	v, settings := info.Main.Version, map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if v == "" {
		v = "(devel)"
	}
	if commit := settings["vcs.revision"]; commit != "" {
		v += ", commit " + commit
		if settings["vcs.modified"] == "true" {
			v += " with changes"
		}
	}
	return v + ", " + info.GoVersion
}
