package stamp

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"cellwall.dev/cellwall/internal/fleet"
)

// Arch is a processor architecture, by the name that Lambda and the fleet's amis use.
type Arch string

// The architectures that Lambda has.
const (
	ARM64 Arch = "arm64"
	X86   Arch = "x86_64"
)

func (a Arch) check() error {
	if a != ARM64 && a != X86 {
		return fmt.Errorf("-c arch=%s: Lambda has no such architecture; write %s or %s", a, ARM64, X86)
	}
	return nil
}

// machine is the architecture in the header of an ELF executable.
func (a Arch) machine() elf.Machine {
	if a == X86 {
		return elf.EM_X86_64
	}
	return elf.EM_AARCH64
}

// checkFunction refuses a function's folder that could only fail in the cell: without the file that
// Lambda starts, or built for another processor. shown is the folder as the user knows it.
func checkFunction(shown, dir string, want Arch) error {
	return checkExecutable(filepath.Join(shown, "bootstrap"), filepath.Join(dir, "bootstrap"), want,
		fmt.Sprintf("the functions run on %s; run make dist, with ARCH=amd64 for -c arch=%s", want, X86))
}

// checkService refuses a service whose command the instances could not start.
func checkService(h fleet.HTTP, dir string) error {
	return checkExecutable(filepath.Join(h.Asset, h.Command), filepath.Join(dir, h.Command), Arch(h.Architecture()),
		fmt.Sprintf("shard.http.instanceType %s is %s; build it for that one", h.InstanceType, h.Architecture()))
}

// checkExecutable refuses a file that is absent, not executable, or an ELF binary for another
// processor. Scripts pass: what runs them is the machine's business.
func checkExecutable(shown, file string, want Arch, otherwise string) error {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s is missing: run make dist", shown)
	case err != nil:
		return fmt.Errorf("%s cannot be read: %w", shown, err)
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return fmt.Errorf("%s is not an executable file, so nothing could start it: run make dist, or chmod +x", shown)
	}
	bin, err := elf.Open(file)
	var other *elf.FormatError
	switch {
	case errors.As(err, &other), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil // no ELF file, or shorter than its header
	case err != nil:
		return fmt.Errorf("%s cannot be read: %w", shown, err)
	}
	defer bin.Close()
	if bin.Machine != want.machine() {
		return fmt.Errorf("%s is built for %s, but %s", shown, bin.Machine, otherwise)
	}
	return nil
}
