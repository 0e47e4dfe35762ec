package options

import (
	"testing"
	"testing/fstest"
)

func TestMemoryLimit(t *testing.T) {
	cases := map[string]struct {
		files map[string]string
		want  int64
		fails bool
	}{
		"a container that sees its own group as the root": {
			files: map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "134217728\n"}, want: 128 << 20,
		},
		"a group without a limit in one that has one": {
			files: map[string]string{
				"proc/self/cgroup": "0::/pods/pod1/c1\n", "sys/fs/cgroup/pods/pod1/c1/memory.max": "max\n", "sys/fs/cgroup/pods/pod1/memory.max": "1000\n",
			}, want: 1000,
		},
		"the smaller one of two": {
			files: map[string]string{
				"proc/self/cgroup": "0::/pods/pod1\n", "sys/fs/cgroup/pods/pod1/memory.max": "1000\n", "sys/fs/cgroup/pods/memory.max": "2000\n",
			}, want: 1000,
		},
		"the first kind, whose root has no limit": {
			files: map[string]string{
				"proc/self/cgroup": "9:name=systemd:/\n4:memory:/docker/abc\n0::/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
				"sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes": "4096\n",
			}, want: 4096,
		},
		"the first kind in a container, which does not see the group's name": {
			files: map[string]string{"proc/self/cgroup": "4:memory:/docker/abc\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "4096\n"}, want: 4096,
		},
		"no limit of the first kind": {
			files: map[string]string{"proc/self/cgroup": "4:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"},
		},
		"no limit":               {files: map[string]string{"proc/self/cgroup": "0::/user\n", "sys/fs/cgroup/user/memory.max": "max\n"}},
		"no control groups":      {fails: true},
		"something else":         {files: map[string]string{"proc/self/cgroup": "hello\n"}, fails: true},
		"a limit that is a word": {files: map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "much\n"}, fails: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			root := fstest.MapFS{}
			for path, text := range tc.files {
				root[path] = &fstest.MapFile{Data: []byte(text)}
			}
			got, err := memoryLimit(root)
			if got != tc.want || (err != nil) != tc.fails {
				t.Errorf("%d, %v; want %d, an error: %t", got, err, tc.want, tc.fails)
			}
		})
	}
}
