package main

import (
	"errors"
	"strings"
	"testing"
)

// wantSlip fails unless args are a usage error of that text with a hint that has hint in it.
func wantSlip(t *testing.T, args []string, msg, hint string) {
	t.Helper()
	_, err := parseOptions(args)
	e, ok := errors.AsType[*usageError](err)
	if !ok || e.msg != msg || !strings.Contains(strings.Join(e.hints, "\n"), hint) {
		t.Errorf("%q: got %v %q; want %s, and a hint with %q", args, err, e, msg, hint)
	}
}

func TestPastedLines(t *testing.T) {
	const noDash, followed = ", which is no dash of the keyboard's", "nothing may follow"
	tests := map[string]struct {
		args      []string
		msg, hint string
	}{
		"en-dash":           {[]string{"\u2013np", "4", "./app"}, "\"\u2013np\" begins with the character U+2013" + noDash, "write -np"},
		"em-dash":           {[]string{"-np", "4", "\u2014hostfile", "h", "./app"}, "\"\u2014hostfile\" begins with the character U+2014" + noDash, "write --hostfile"},
		"two-em-dashes":     {[]string{"\u2014\u2014np=4", "./app"}, "\"\u2014\u2014np=4\" begins with the character U+2014" + noDash, "write --np=4"},
		"dash-and-hyphen":   {[]string{"-\u2010np", "4", "./app"}, "\"-\u2010np\" begins with the character U+2010" + noDash, "write --np"},
		"minus":             {[]string{"\u2212x", "A=1", "./app"}, "\"\u2212x\" begins with the character U+2212" + noDash, "write -x"},
		"dash-secret":       {[]string{"\u2013x=API_KEY=hunter2", "./app"}, "\"\u2013x=API_KEY=<hidden>\" begins with the character U+2013" + noDash, "write '-x=API_KEY=<hidden>'"},
		"no-break-space":    {[]string{"-np\u00a04", "./app"}, `"-np\u00a04" holds the character U+00A0, which is no space of the keyboard's`, "type the space anew"},
		"quoted-program":    {[]string{"-np", "4", "\u201c./app\u201d"}, "\"\u201c./app\u201d\": the character U+201C is no quote for a shell", `write ' or "`},
		"quoted-value":      {[]string{"-x", "\u2018A=1\u2019", "./app"}, "\"\u2018A=1\u2019\": the character U+2018 is no quote for a shell", `write ' or "`},
		"quoted-half":       {[]string{"-x", "A=\u201ca", "b\u201d", "./app"}, "\"b\u201d\": the character U+201D is no quote for a shell", `write ' or "`},
		"blank-after-end":   {[]string{"-np", "4", " -hostfile", "h", "./app"}, `" -hostfile" stands where a flag or the program belongs`, followed},
		"blank-and-nothing": {[]string{"-np", "4", " ", "./app"}, `" " stands where a flag or the program belongs`, followed},
		"backslash":         {[]string{"-np", "4", `\`, "./app"}, `"\\" stands where a flag or the program belongs`, followed},
		"newline":           {[]string{"-np", "4", "\n./app"}, `"\n./app" stands where a flag or the program belongs`, followed},
		"return-alone":      {[]string{"-np", "4", "\r", "./app"}, "a carriage return stands where a flag or the program belongs", "sed -i"},
		"return-at-end":     {[]string{"-np", "4", "./app\r"}, `"./app\r" ends in a carriage return`, "sed -i"},
		"return-in-value":   {[]string{"-np", "4\r"}, `"4\r" ends in a carriage return`, "sed -i"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { wantSlip(t, tt.args, tt.msg, tt.hint) })
	}
}

// What is the program's own, and what -- marks, is not looked at.
func TestOddWordsOfPrograms(t *testing.T) {
	for _, args := range [][]string{
		{"./app", "\u2013np", "\u201ca\u201d", " ", `\`, "\r"}, {"--", "\u2013np"}, {"--", " app"}, {"--", "mpirun", "-np", "4"},
		{"-x", "A=\u201ca\u201db", "./app"}, {"./a\u2013b"}, {"./mpirun.py"}, {"-ppn", "1", "torchrun", "--nproc-per-node", "8", "t.py"},
		{"-ppn", "1", "python3", "-m", "torch.distributed.run", "t.py"}, {"python3", "-m", "pkg"},
	} {
		given(t, args...)
	}
}

func TestOtherLaunchers(t *testing.T) {
	const place, twoHosts = " stands where the program belongs: gorun takes its place", "FILE names the hosts, 2 of them, one a line"
	tests := map[string]struct{ line, msg, hint string }{
		"mpirun":       {"mpirun -np 4 ./app", `"mpirun"` + place, "leave it out: gorun -np 4 ./app"},
		"mpirun-path":  {"/usr/bin/mpirun --mca btl ^openib ./app", `"mpirun"` + place, "gorun --mca btl '^openib' ./app"},
		"mpirun-alone": {"mpirun", `"mpirun"` + place, "put -- before it"},
		"hydra":        {"-np 2 mpiexec.hydra -n 4 ./app", `"mpiexec.hydra"` + place, "gorun -n 4 ./app"},
		"srun":         {"srun -n4 ./app", `"srun"` + place, "gorun -n4 ./app"},
		"horovodrun":   {"horovodrun -np 4 -H a:4 python3 t.py", `"horovodrun"` + place, "gorun -np 4 -H a:4 python3 t.py"},
		"secret":       {"mpirun -x API_KEY=hunter2 ./app", `"mpirun"` + place, "gorun -x 'API_KEY=<hidden>' ./app"},
		"torchrun":     {"torchrun --nproc_per_node=8 t.py --lr 0.1", `"torchrun"` + place, "the whole line: gorun -np 8 python3 t.py --lr 0.1"},
		"torchrun-two": {"torchrun --nproc_per_node 8 --nnodes 2 --node_rank 0 --master_addr h --master_port 1 t.py", `"torchrun"` + place, "the whole line: gorun -hostfile FILE -ppn 8 python3 t.py\n" + twoHosts},
		"torch-launch": {"python -m torch.distributed.launch --use_env --nproc_per_node=4 t.py", `"torch.distributed.launch"` + place, "the whole line: gorun -np 4 python3 t.py"},
		"deepspeed":    {"deepspeed --hostfile=h --num_gpus 8 t.py --deepspeed c.json", `"deepspeed"` + place, "the whole line: gorun --hostfile h -ppn 8 python3 t.py --deepspeed c.json"},
		"flags-only":   {"--nproc-per-node=8 --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=h:1 --max-restarts=3 -m pkg.train --x", "unknown flag --nproc-per-node", "the whole line: gorun -hostfile FILE -ppn 8 python3 -m pkg.train --x\n" + twoHosts},
		"elastic":      {"--nnodes=1:4 --nproc-per-node=gpu --log-dir logs t.py", "unknown flag --nnodes", "the whole line: gorun -hostfile FILE --output-dir logs python3 t.py\nwithout -ppn a host gets a rank for each slot that the hostfile gives it or, if that says nothing, for each GPU\nFILE names the hosts, 1 to 4 of them"},
		"file-and-two": {"-hostfile h --nnodes=2 --nproc_per_node=2 t.py", "unknown flag --nnodes", "the whole line: gorun -hostfile h -np 4 -ppn 2 python3 t.py\nthe hosts are"},
		"file-no-ppn":  {"-hostfile h --num_nodes=2 hostname", "unknown flag --num_nodes", "the whole line: gorun -hostfile h hostname\nall hosts of h are used; -H host1,host2 selects from them, for --num_nodes 2\n"},
		"file-elastic": {"--hostfile h --nnodes=1:2 --nproc_per_node 2 t.py", "unknown flag --nnodes", "the whole line: gorun --hostfile h -ppn 2 python3 t.py\nall hosts of h are used"},
		"odd-count":    {"--nproc-per-node=x t.py", "unknown flag --nproc-per-node", "the whole line: gorun python3 t.py\n-ppn N is the number of ranks on each host, for --nproc-per-node x\n"},
		"file-many":    {"--hostfile h --nnodes=99999 --nproc_per_node 99999 t.py", "unknown flag --nnodes", "the whole line: gorun --hostfile h -ppn 99999 python3 t.py\nall hosts of h are used"},
		"num-nodes":    {"--hostfile=h --num_nodes 2 --num_gpus 2 t.py --x", "unknown flag --num_nodes", "the whole line: gorun --hostfile h -np 4 -ppn 2 python3 t.py --x\nthe hosts are"},
		"one-node":     {"deepspeed --hostfile h --num_nodes 1 --num_gpus 2 t.py", `"deepspeed"` + place, "the whole line: gorun --hostfile h -np 2 -ppn 2 python3 t.py\nif it is"},
		"without":      {"deepspeed --hostfile h --exclude a@b --num_gpus 2 t.py", `"deepspeed"` + place, "the whole line: gorun --hostfile h -ppn 2 --exclude a,b python3 t.py\nif it is"},
		"of-all":       {"deepspeed --exclude a --num_gpus 2 t.py", `"deepspeed"` + place, "the whole line: gorun -hostfile FILE -ppn 2 --exclude a python3 t.py\nFILE names the hosts, one a line\n"},
		"log-dir":      {"--standalone --nproc-per-node=2 --log-dir logs t.py", "unknown flag --standalone", "the whole line: gorun -np 2 --output-dir logs python3 t.py"},
		"no-python":    {"--standalone --nproc-per-node=2 --no-python ./train", "unknown flag --standalone", "the whole line: gorun -np 2 ./train"},
		"odd-flag":     {"--nproc-per-node=2 --frob 3 t.py", "unknown flag --nproc-per-node", "-ppn N"},
		"no-script":    {"--nproc-per-node=2", "unknown flag --nproc-per-node", "-ppn N"},
		"no-value":     {"--standalone --nproc-per-node", "unknown flag --standalone", "MASTER_ADDR"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { wantSlip(t, strings.Fields(tt.line), tt.msg, tt.hint) })
	}
	for _, line := range []string{"--nproc-per-node=2 --frob 3 t.py", "--nproc-per-node=2", "-m pkg.train", "--standalone --nproc-per-node", "--num_gpus 2 --hostfile h --exclude a:0 t.py"} {
		if hints, ok := torchLine(strings.Fields(line)); ok {
			t.Errorf("%s: got %q; want no line", line, hints)
		}
	}
}

// The lines that hints give can be typed.
func FuzzTorchLine(f *testing.F) {
	for _, s := range []string{"--nproc_per_node=8 --nnodes=2 t.py a", "--standalone -m p", "--num_gpus 4 --hostfile h t.py", "--log-dir a --nproc-per-node=x t", "-", "--nnodes"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		hints, ok := torchLine(strings.Fields(s))
		if ok != (len(hints) > 0) {
			t.Fatalf("%q: got %q, %v", s, hints, ok)
		}
		if ok && !strings.HasPrefix(hints[0], "the whole line: gorun ") {
			t.Fatalf("%q: got %q", s, hints)
		}
	})
}
