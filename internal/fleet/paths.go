package fleet

import "strings"

// join and last take paths such as cells[1].shards apart.
func join(path, key string) string {
	if path == "" || key == "" {
		return path + key
	}
	return path + "." + key
}

// entry is the path of a dictionary's value. The empty key, which stands in some by mistake, is a path of its own.
func entry(path, key string) string {
	if key == "" {
		key = `""`
	}
	return join(path, key)
}

// parent returns the path of the value that contains the one at path. Keys of dictionaries may contain
// dots and brackets: the result is then no path of a value, which does no harm.
func parent(path string) string { return path[:max(0, strings.LastIndexAny(path, ".["))] }

func last(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

// subject names a value in a message.
func subject(path string) string {
	if path == "" {
		return "the file"
	}
	return path
}

// place says where a key stands, in a message.
func place(path string) string {
	if path == "" {
		return "at the top of a fleet file"
	}
	return "in " + path
}

func alternatives(all []string) string {
	if len(all) == 1 {
		return all[0]
	}
	return strings.Join(all[:len(all)-1], ", ") + " or " + all[len(all)-1]
}
