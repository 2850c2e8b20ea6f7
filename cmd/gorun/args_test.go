package main

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gorun/envsync"
	"gorun/launcher"
)

// parseOptions reads a launch's command line where nothing is configured.
func parseOptions(args []string) (options, error) {
	return (&command{env: environment{"GORUN_CONFIG=none"}}).options(args)
}

// differ returns how options differ in what flags say, "" if not at all.
func differ(want, got options) string {
	got.said, got.lastName, got.config, got.configFile = nil, use{}, config{}, ""
	return cmp.Diff(want, got, cmp.AllowUnexported(options{}, preflightOptions{}, configuredThreshold{}, use{}, mapping{}, binding{}, config{}, forwarded{}))
}

// given returns the options of args, and fails the test on an error.
func given(t *testing.T, args ...string) options {
	t.Helper()
	o, err := parseOptions(args)
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return o
}

func TestSpellings(t *testing.T) {
	tests := map[string]struct {
		lines []string // words split at blanks; "./app" is added
		want  func(*options)
	}{
		"ranks": {
			[]string{"-np 16", "-n 16", "--np 16", "-c 16", "--n 16", "-np=16", "-n=16", "--np=16", "-np16", "-n16", "-c16"},
			func(o *options) { o.np = 16 },
		},
		"hostfile": {
			[]string{"-hostfile f", "--hostfile f", "-machinefile f", "--machinefile=f", "-f f", "-f=f"},
			func(o *options) { o.hostfile = "f" },
		},
		"hosts": {
			[]string{"-H a:4,b", "-host a:4,b", "--host a:4,b", "--host=a:4,b", "-hosts a:4,b"},
			func(o *options) { o.hosts = "a:4,b" },
		},
		"per-host": {
			[]string{"-ppn 2", "-npernode 2", "-N 2", "--ppn 2", "--npernode=2", "-N2", "-ppn2"},
			func(o *options) { o.ppn = 2 },
		},
		"variable": {
			[]string{"-x FOO=1=2", "--x FOO=1=2", "-x=FOO=1=2"},
			func(o *options) { o.settings = []envsync.Setting{{Flag: "-x", Text: "FOO=1=2"}} },
		},
		"genv": {
			[]string{"-genv A B", "-genv A=B", "--genv A B", "-genv=A=B", "-genv=A B"},
			func(o *options) { o.settings = []envsync.Setting{{Flag: "-genv", Text: "A=B"}} },
		},
		"genv-dash": {
			[]string{"-genv CFLAGS -l", "-genv CFLAGS=-l"},
			func(o *options) { o.settings = []envsync.Setting{{Flag: "-genv", Text: "CFLAGS=-l"}} },
		},
		"genv-flag": {
			[]string{"-genv ARGS=-np"},
			func(o *options) { o.settings = []envsync.Setting{{Flag: "-genv", Text: "ARGS=-np"}} },
		},
		"in-order": {
			[]string{"-x A=1 -genv A 2 -x A"},
			func(o *options) {
				o.settings = []envsync.Setting{{Flag: "-x", Text: "A=1"}, {Flag: "-genv", Text: "A=2"}, {Flag: "-x", Text: "A"}}
			},
		},
		"genvall": {[]string{"-genvall", "--genvall"}, func(o *options) { o.envAll = true }},
		"tags":    {[]string{"-l", "--tag-output", "-tag-output", "-l -l", "--tag-output=true"}, func(o *options) { o.tag = true }},
		"untag":   {[]string{"--tag-output=false"}, func(o *options) {}},
		"wdir":    {[]string{"-wdir d", "-wd d", "--wdir=d"}, func(o *options) { o.wdir = "d" }},
		"timeout": {
			[]string{"--timeout 60", "-timeout 60s", "--timeout=1m", "--timeout 60.0", "--timeout 60 --timeout 1m"},
			func(o *options) { o.timeout = time.Minute },
		},
		"fraction":    {[]string{"--kill-grace 0.5", "--kill-grace 500ms"}, func(o *options) { o.grace = 500 * time.Millisecond }},
		"no-grace":    {[]string{"--kill-grace 0"}, func(o *options) { o.grace = 0 }},
		"stdin-none":  {[]string{"--stdin none", "-stdin=none"}, func(o *options) { o.stdin = launcher.StdinNone }},
		"stdin-all":   {[]string{"--stdin all"}, func(o *options) { o.stdin = launcher.StdinAll }},
		"stdin-rank":  {[]string{"--stdin 3"}, func(o *options) { o.stdin = 3 }},
		"verbose":     {[]string{"-v", "--verbose", "-v=1", "-vv", "-v -v"}, func(o *options) { o.verbose = true }},
		"equal-twice": {[]string{"-np 4 -n 4 --np=4 -c4"}, func(o *options) { o.np = 4 }},
		"the-rest": {
			[]string{"--oversubscribe --output-dir out --keep-going --fanout 8 --connect-timeout 5 --lost-after 5 " +
				"--accept-new-host-keys --backend cpu --interface eth0 --result r.json --exclude a,b"},
			func(o *options) {
				o.oversubscribe, o.outputDir, o.keepGoing, o.fanout = true, "out", true, 8
				o.connectTimeout, o.lostAfter = 5*time.Second, 5*time.Second
				o.acceptNew, o.backend, o.iface, o.result, o.exclude = true, "cpu", "eth0", "r.json", "a,b"
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			want := defaultOptions()
			want.program = []string{"./app"}
			tt.want(&want)
			for _, line := range tt.lines {
				got := given(t, append(strings.Fields(line), "./app")...)
				if diff := differ(want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", line, diff)
				}
			}
		})
	}
}

func TestFlagsEndAtProgram(t *testing.T) {
	tests := map[string]struct {
		args, program []string
		marked        bool
	}{
		"flags-of-the-program": {[]string{"-np", "2", "./app", "-np", "4", "-x"}, []string{"./app", "-np", "4", "-x"}, false},
		"marked":               {[]string{"-np", "2", "--", "-odd", "--", "a:b"}, []string{"-odd", "--", "a:b"}, true},
		"marker-of-program":    {[]string{"./app", "--", "x"}, []string{"./app", "--", "x"}, false},
		"subcommands-name":     {[]string{"--", "clean"}, []string{"clean"}, true},
		"assignment-marked":    {[]string{"--", "A=1"}, []string{"A=1"}, true},
		"host-marked":          {[]string{"-H", "a:2", "--", "b:2", "x"}, []string{"b:2", "x"}, true},
		"host-without-list":    {[]string{"b:2", "x"}, []string{"b:2", "x"}, false},
		"colon-marked":         {[]string{"--", "app", ":"}, []string{"app", ":"}, true},
		"path-with-equals":     {[]string{"./a=b"}, []string{"./a=b"}, false},
		"bytes":                {[]string{"./app", "\xff\xfe", "a\nb", `$"'`, ""}, []string{"./app", "\xff\xfe", "a\nb", `$"'`, ""}, false},
		"dash":                 {[]string{"-", "x"}, []string{"-", "x"}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o := given(t, tt.args...)
			if !slices.Equal(o.program, tt.program) || o.marked != tt.marked {
				t.Errorf("got %q, marked %v; want %q, marked %v", o.program, o.marked, tt.program, tt.marked)
			}
		})
	}
}

func TestSlips(t *testing.T) {
	tests := map[string]struct {
		args []string
		msg  string
		hint string // part of one of the hints; "" for none
	}{
		"nothing":            {nil, "no program given", "gorun -np 4 ./app"},
		"no-program":         {[]string{"-np", "4"}, "no program given", "gorun -np 4 ./app"},
		"empty-program":      {[]string{"-np", "4", ""}, "the program's name is empty", "unset"},
		"zero":               {[]string{"-np", "0", "./app"}, "-np: 0 is less than 1", "-np 16"},
		"negative":           {[]string{"-np", "-1", "./app"}, "-np: -1 is less than 1", "-np 16"},
		"word":               {[]string{"-n", "four", "./app"}, `-n: "four" is not a whole number`, "-np 16"},
		"fraction":           {[]string{"-np", "1.5", "./app"}, `-np: "1.5" is not a whole number`, "-np 16"},
		"too-many":           {[]string{"-np", "2000000", "./app"}, "-np: 2000000 is too large a number; a job has at most 65536 ranks", "-np 16"},
		"overflow":           {[]string{"-np", "99999999999999999999", "./app"}, "-np: 99999999999999999999 is too large a number", ""},
		"empty-number":       {[]string{"-np=", "./app"}, `-np: "" is not a whole number`, ""},
		"value-missing":      {[]string{"-np"}, "-np needs a value", "--help"},
		"value-forgotten":    {[]string{"-np", "-hostfile", "f", "./app"}, "-np needs a value before -hostfile", "--help"},
		"value-before-end":   {[]string{"-H", "--", "./app"}, "-H needs a value before --", "--help"},
		"genv-half":          {[]string{"-genv", "A"}, "-genv A: the value is missing", "-genv A=VALUE"},
		"genv-forgotten":     {[]string{"-genv", "FOO", "-np", "2", "./app"}, "-genv FOO: the value is missing before -np", "write -genv FOO=VALUE"},
		"genv-forgotten-n":   {[]string{"-genv", "FOO", "-n", "2", "./app"}, "-genv FOO: the value is missing before -n", "if -n is the value: -genv FOO=-n"},
		"genv-before-end":    {[]string{"-env", "FOO", "--", "./app"}, "-env FOO: the value is missing before --", "-env FOO=VALUE"},
		"mca-forgotten":      {[]string{"--mca", "btl", "-hostfile", "hosts", "./app"}, "--mca btl: the value is missing before -hostfile", "--mca btl VALUE"},
		"twice":              {[]string{"-np", "4", "-n", "8", "./app"}, "-np=4 and -n=8 contradict each other", ""},
		"hostfile-twice":     {[]string{"-f", "a", "-hostfile", "b c", "./app"}, "-f=a and -hostfile='b c' contradict each other", ""},
		"hosts-twice":        {[]string{"-H", "a:2", "-host", "b:2", "./app"}, "-H=a:2 and -host=b:2 contradict each other", "write one list: -host a:2,b:2"},
		"exclude-twice":      {[]string{"--exclude", "a", "--exclude", "b", "./app"}, "--exclude=a and --exclude=b contradict each other", "write one list: --exclude a,b"},
		"home-in-a-value":    {[]string{"-wd=~/w", "./app"}, `-wd: "~/w": no shell has put the home directory for the ~`, "-wdir ~/..."},
		"home-of-files":      {[]string{"--output-dir=~/logs", "./app"}, `--output-dir: "~/logs": no shell has put the home directory for the ~`, "--output-dir ~/..."},
		"home-quoted":        {[]string{"--preload", "~", "./app"}, `--preload: "~": no shell has put the home directory for the ~`, "a word begins with it"},
		"output-of-openmpi":  {[]string{"--output", "tag,timestamp", "./app"}, "unknown flag --output", "write -l for tag"},
		"output-of-srun":     {[]string{"--output=f", "./app"}, "unknown flag --output", "write --output-dir DIR"},
		"include-gpus":       {[]string{"--include", "localhost:0,1", "./app"}, "unknown flag --include", "CUDA_VISIBLE_DEVICES"},
		"srun-cpus":          {[]string{"-c", "4", "--n", "2", "./app"}, "-c=4 and --n=2 contradict each other", "as -np"},
		"letter-case":        {[]string{"-C", "gpu", "./app"}, "unknown flag -C", "no scheduler"},
		"bool-twice":         {[]string{"-l", "-l=false", "./app"}, "-l=true and -l=false contradict each other", ""},
		"bool-value":         {[]string{"-l=maybe", "./app"}, `-l: "maybe" is neither true nor false`, "the flag needs no value"},
		"typo":               {[]string{"--hostfle", "f", "./app"}, "unknown flag --hostfle", "did you mean -hostfile?"},
		"tie":                {[]string{"-npp", "4", "./app"}, "unknown flag -npp", "did you mean -np?"},
		"swapped":            {[]string{"--timeuot=3", "./app"}, "unknown flag --timeuot", "did you mean --timeout?"},
		"underscore":         {[]string{"--output_dir", "d", "./app"}, "unknown flag --output_dir", "write --output-dir"},
		"case":               {[]string{"-NP", "4", "./app"}, "unknown flag -NP", "write -np"},
		"three-dashes":       {[]string{"---np", "4", "./app"}, "unknown flag ---np", "one dash or two"},
		"far-from-all":       {[]string{"--frobnicate", "./app"}, "unknown flag --frobnicate", "--help"},
		"glued-variable":     {[]string{"-xFOO=1", "./app"}, "unknown flag -xFOO", "write -x FOO=1"},
		"glued-hosts":        {[]string{"-Hgpu1,gpu2", "./app"}, "unknown flag -Hgpu1,gpu2", "write -H gpu1,gpu2"},
		"x-took-the-program": {[]string{"-x", "./prog"}, `-x "./prog": that is not the name of a variable`, "-x NAME=VALUE"},
		"x-digit":            {[]string{"-x", "1A=3", "./app"}, `-x "1A=3": a name cannot start with a digit`, "letters, digits"},
		"x-empty":            {[]string{"-x", "=3", "./app"}, `-x "=3": no name`, "NAME=VALUE"},
		"genv-blank":         {[]string{"-genv", "A B=1", "./app"}, `-genv "A B=1": a blank in the name`, "without blanks"},
		"hosts-cut-colon":    {[]string{"-H", "a:", "2", "./app"}, `-H "a:" ends in ":"`, "without spaces: -H a:2"},
		"hosts-cut-often":    {[]string{"-H", "a:", "2,", "b:", "2", "./app", "1"}, `-H "a:" ends in ":"`, "without spaces: -H a:2,b:2"},
		"hosts-cut-before":   {[]string{"-H", "a,", "b", ",c", "./app"}, `-H "a," ends in ","`, "without spaces: -H a,b,c"},
		"names-together":     {[]string{"-x", "A,B", "./app"}, `-x "A,B": several names`, "write -x A -x B"},
		"hosts-cut-comma":    {[]string{"-H", "a:2,", "b:2", "./app"}, `-H "a:2," ends in ","`, "without spaces: -H a:2,b:2"},
		"hosts-comma":        {[]string{"-H", "a,b,", "./app"}, `-H "a,b," ends in ","`, "-H a,b"},
		"hosts-cut-between":  {[]string{"-H", "a:2", "b:2", "./app"}, `"b:2" stands where the program belongs`, "-H a:2,b:2"},
		"variable-first":     {[]string{"FOO=1", "./app"}, `"FOO=1" stands where the program belongs`, "-x FOO=1"},
		"tags-in-files":      {[]string{"-l", "--output-dir", "d", "./app"}, "-l and --output-dir exclude each other", "unchanged"},
		"dry-result":         {[]string{"--dry-run", "--result", "f", "./app"}, "--result and --dry-run exclude each other", "dry run"},
		"stdin-too-high":     {[]string{"-np", "2", "--stdin", "2", "./app"}, "--stdin 2: with -np 2 the last rank is 1", ""},
		"stdin-word":         {[]string{"--stdin", "zero", "./app"}, `--stdin: "zero" is not a rank`, "none, all"},
		"stdin-negative":     {[]string{"--stdin", "-1", "./app"}, `--stdin: "-1" is not a rank`, "none, all"},
		"timeout-zero":       {[]string{"--timeout", "0", "./app"}, "--timeout: no time at all", "leave the flag out"},
		"timeout-negative":   {[]string{"--timeout", "-5", "./app"}, `--timeout: "-5" is less than 0`, ""},
		"grace-endless":      {[]string{"--kill-grace", "2562047h47m10s", "./app"}, `--kill-grace: "2562047h47m10s" is more than 87600h0m0s`, ""},
		"timeout-word":       {[]string{"--timeout", "1:30", "./app"}, `--timeout: "1:30" is not a time`, "60, 1.5, 500ms"},
		"timeout-endless":    {[]string{"--timeout", "1e300", "./app"}, `--timeout: "1e300" is not a time`, "60, 1.5, 500ms"},
		"timeout-nan":        {[]string{"--timeout", "nan", "./app"}, `--timeout: "nan" is not a time`, "60, 1.5, 500ms"},
		"lost-too-soon":      {[]string{"--lost-after", "1", "./app"}, "--lost-after: 1s is too short: a host gives a sign of life every 2 s", "30s"},
		"fanout-zero":        {[]string{"--fanout", "0", "./app"}, "--fanout: 0 is less than 1", "without it there are 64 at once"},
		"port-word":          {[]string{"--ssh-port", "abc", "-H", "a", "./app"}, `--ssh-port: "abc" is not a whole number`, "1 to 65535"},
		"port-too-large":     {[]string{"--ssh-port", "70000", "-H", "a", "./app"}, "--ssh-port: 70000 is no port", "1 to 65535"},
		"cores-zero":         {[]string{"--cpus-per-rank", "0", "./app"}, `--cpus-per-rank: "0" is not a number of cores`, "1 or more"},
		"backend":            {[]string{"--backend", "a b", "./app"}, `--backend: "a b" is not the name of a backend`, "cpu"},
		"empty-dir":          {[]string{"-wdir", "", "./app"}, "-wdir: the value is empty", "unset"},
		"help-is-no-value":   {[]string{"--version=maybe"}, `--version: "maybe" is neither true nor false`, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := parseOptions(tt.args)
			e, ok := errors.AsType[*usageError](err)
			if !ok {
				t.Fatalf("%q: got error %v; want a usage error", tt.args, err)
			}
			if e.msg != tt.msg {
				t.Errorf("got %q; want %q", e.msg, tt.msg)
			}
			if hints := strings.Join(e.hints, "\n"); !strings.Contains(hints, tt.hint) {
				t.Errorf("got hints %q; want one with %q", hints, tt.hint)
			}
		})
	}
}

// However a secret got into the wrong place, its value is not repeated.
func TestSlipsHideSecrets(t *testing.T) {
	for name, args := range map[string][]string{
		"glued":          {"-xAPI_KEY=hunter2", "./app"},
		"glued-colon":    {"-xAPI_KEY:hunter2", "./app"},
		"other-flag":     {"--api-key=hunter2", "./app"},
		"blank":          {"-x", "API_KEY =hunter2", "./app"},
		"pattern":        {"-x", "API_KEY* =hunter2", "./app"},
		"colon":          {"-x", "API_KEY:hunter2", "./app"},
		"path":           {"-x", "API_KEY:/hunter2", "./app"},
		"genv-half":      {"-genv", "API_KEY:hunter2"},
		"genv-blank":     {"-genv", "API_KEY ", "hunter2", "./app"},
		"before-a-flag":  {"-np", "-x=API_KEY=hunter2", "./app"},
		"variable-first": {"API_KEY=hunter2", "./app"},
		"variable-blank": {"API_KEY =hunter2", "./app"},
		"behind-hosts":   {"-H", "a,", "API_KEY=hunter2", "./app"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseOptions(args)
			e, ok := errors.AsType[*usageError](err)
			if !ok {
				t.Fatalf("got error %v; want a usage error", err)
			}
			if text := e.msg + strings.Join(e.hints, "\n"); strings.Contains(text, "hunter2") {
				t.Errorf("got %q", text)
			}
		})
	}
}

func TestHelpWinsOverTheRest(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"-h"}, {"-np", "4", "--help"}, {"-help", "./app"}, {"-x", "./prog", "-h"}} {
		if o := given(t, args...); !o.help {
			t.Errorf("%q: got no help", args)
		}
	}
	for _, args := range [][]string{{"--version"}, {"-V"}, {"-version"}} {
		if o := given(t, args...); !o.version {
			t.Errorf("%q: got no version", args)
		}
	}
}

// FuzzParseOptions checks for any command line that it is an error with gorun's own
// type, or that the program and its arguments are the last words, unchanged.
func FuzzParseOptions(f *testing.F) {
	for _, s := range []string{
		"-np\x0016\x00-hostfile\x00h\x00./app\x00-x", "-genv\x00A\x00B\x00-x\x00C=1\x00--\x00p", "-np16\x00-vv\x00./app",
		"-H\x00a:\x002", "--timeout\x001e9\x00a", "-x", "--map-by\x00node\x00a", "-=\x00--=\x00-", "-xA\xff=1\x00a", "--mca\x00plm_rsh_args\x00-p 22 -oA=b -i\x00a", "--mca\x00plm_rsh_agent\x00k {\x00a",
		"--mca\x00mca_base_env_list\x00A=1;B\x00a", "\u2013np\x004", "--nproc_per_node=8\x00--nnodes\x002\x00t.py", "mpirun\x00-np\x004", "--stdin=all\x00-l=0\x00a",
		"-np\x001\x00a\x00:\x00-np\x002\x00-x\x00A=1\x00b\x00:\x00-n1\x00--\x00c\x00:",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		args := strings.Split(s, "\x00")
		for _, a := range args {
			if spellings()[cut(a).word] == "app" {
				t.Skip("that reads a file")
			}
		}
		o, err := parseOptions(args)
		if err != nil {
			if _, ok := errors.AsType[*usageError](err); !ok || err.Error() == "" {
				t.Fatalf("%q: error %v of another type", args, err)
			}
			return
		}
		last := o.programs()[len(o.more)].program
		if n := len(args) - len(last); n < 0 || !slices.Equal(args[n:], last) {
			t.Fatalf("%q: program %q is not the end of the line", args, last)
		}
		if o.help || o.version {
			return
		}
		if len(o.program) == 0 || o.np < 0 || o.ppn < 0 || o.fanout < 1 || o.timeout < 0 || o.grace < 0 || o.connectTimeout <= 0 || o.lostAfter <= 0 {
			t.Fatalf("%q: impossible options %+v", args, o)
		}
	})
}

func TestNearest(t *testing.T) {
	for _, tt := range []struct{ word, candidates, want string }{
		{"npp", "app np", "np"}, {"npp", "np app", "np"}, {"hosta", "costa host hosts", "host"}, {"host", "cost most hosts", "hosts"},
		{"tags", "bags togs", "togs"}, {"tagg", "lagg bagg", "lagg"}, {"hostfle", "hostfile host", "hostfile"}, {"abc", "x ab", "ab"},
		{"ab", "abc", ""}, {"", "a b", ""}, {"nothing", "else", ""},
	} {
		if got := nearest(tt.word, strings.Fields(tt.candidates)); got != tt.want {
			t.Errorf("%q of %s: got %q; want %q", tt.word, tt.candidates, got, tt.want)
		}
	}
}
