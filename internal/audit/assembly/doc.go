// Package assembly reads what the audit looks at: a CDK cloud assembly, or a directory of bare
// CloudFormation templates in JSON or YAML. It reads from an fs.FS and from nowhere else, so a caller
// that passes os.Root's keeps every symbolic link and every path of a manifest inside the directory.
package assembly
