package launcher

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"gorun/envsync"
	"gorun/hostfile"
	"gorun/launcher/wire"
)

// lint is what envsync.Lint finds in the ranks' variables, and what only the number of
// hosts tells. Each finding comes once, however many ranks it is about.
func (j Job) lint(env environment) []envsync.Finding {
	var all []envsync.Finding
	looked, told := map[string]bool{}, map[string]bool{}
	add := func(found []envsync.Finding) {
		for _, f := range found {
			if text := f.String(); !told[text] {
				told[text] = true
				all = append(all, f)
			}
		}
	}
	add(j.lintHosts(env))
	add(j.lintPrograms(env))
	for i := range env.apps {
		add(envsync.Lint(slices.Concat(env.job, env.apps[i])))
	}
	for _, host := range slices.Sorted(maps.Keys(env.hosts)) {
		vars := env.hosts[host]
		key := fmt.Sprintf("%q", vars)
		if len(vars) == 0 || looked[key] {
			continue
		}
		looked[key] = true
		for i := range env.apps {
			add(envsync.Lint(slices.Concat(env.job, vars, env.apps[i])))
		}
	}
	return all
}

// lintHosts finds what is wrong for several hosts and right for one.
func (j Job) lintHosts(env environment) []envsync.Finding {
	if len(j.Hosts) < 2 {
		return nil
	}
	var found []envsync.Finding
	for _, v := range append(slices.Concat(env.apps...), env.job...) {
		switch {
		case v.Name == "NCCL_SOCKET_IFNAME" && namesLoopback(v.Value) && !everywhere(env.hosts, j, v.Name):
			found = append(found, envsync.Finding{Var: v, Msg: "by the loopback interface no host reaches another"})
		case v.Name == "MASTER_ADDR" && isLoopback(v.Value):
			found = append(found, envsync.Finding{Var: v, Msg: "on each host that is the host itself, and only rank 0's is meant",
				Hint: "leave it unset: gorun sets the address of rank 0's host"})
		}
	}
	for i := range env.apps {
		found = append(found, j.lintHostIDs(env, i)...)
	}
	return found
}

// lintHostIDs finds hosts whose ranks of an App get one NCCL_HOSTID, wherever that is from.
func (j Job) lintHostIDs(env environment, app int) []envsync.Finding {
	const name = "NCCL_HOSTID"
	var found []envsync.Finding
	hosts := map[string][]string{} // by value
	for _, h := range j.Hosts {
		v := effective(name, env.apps[app], env.hosts[h.Name], env.job)
		if v.Value == "" {
			continue
		}
		if hosts[v.Value] == nil {
			found = append(found, envsync.Finding{Var: v, Hint: "leave it unset, or give each host its own in a [[host]]"})
		}
		hosts[v.Value] = append(hosts[v.Value], h.Name)
	}
	for i, f := range found {
		same := hosts[f.Var.Value]
		who := hostfile.Fold(same)
		if len(same) == len(j.Hosts) {
			who = "all hosts"
		}
		found[i].Msg = who + " get the same, and NCCL takes them for one host"
	}
	return slices.DeleteFunc(found, func(f envsync.Finding) bool { return len(hosts[f.Var.Value]) < 2 })
}

// lintPrograms finds NCCL settings that ranks of several programs must agree on, and do not.
func (j Job) lintPrograms(env environment) []envsync.Finding {
	var found []envsync.Finding
	looked := map[string]bool{}
	for _, v := range slices.Concat(env.apps...) {
		class := envsync.ClassOf(v.Name)
		if looked[v.Name] || !strings.HasPrefix(v.Name, "NCCL_") || class != envsync.ClassJob && class != envsync.ClassHost {
			continue
		}
		looked[v.Name] = true
		if text := j.valuesOfPrograms(env, v.Name); text != "" {
			found = append(found, envsync.Finding{Var: v, Msg: "the programs get different values: " + text, Hint: fmt.Sprintf("-genv %s VALUE sets one for all of them", v.Name)})
		}
	}
	return found
}

// valuesOfPrograms says which programs get which value of a variable; "" if all get the same.
func (j Job) valuesOfPrograms(env environment, name string) string {
	programs := map[string][]string{} // by what the value means
	var parts, order []string
	for i := range env.apps {
		v := effective(name, env.apps[i], env.job)
		key, text := "="+envsync.Meaning(name, v.Value), strings.TrimPrefix(envsync.Show(v), name+"=")
		switch {
		case v.Name == "":
			key, text = "", "not set"
		case v.Value == "":
			text = "empty"
		}
		if programs[key] == nil {
			order, parts = append(order, key), append(parts, text)
		}
		programs[key] = append(programs[key], j.appName(i))
	}
	if len(order) < 2 {
		return ""
	}
	for i, key := range order {
		parts[i] += " for " + someOf(programs[key])
	}
	return strings.Join(parts, ", ")
}

// effective is the variable of that name in the first of lists that has it; of a repeated
// one the last counts.
func effective(name string, lists ...[]envsync.Var) envsync.Var {
	for _, vars := range lists {
		for _, v := range slices.Backward(vars) {
			if v.Name == name {
				return v
			}
		}
	}
	return envsync.Var{}
}

// namesLoopback reports whether a value of NCCL_SOCKET_IFNAME is the loopback interface.
func namesLoopback(spec string) bool { return spec == "lo" || spec == "=lo" }

// isLoopback reports whether a name or address means on each host the host itself.
func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	if err != nil {
		return strings.EqualFold(host, "localhost")
	}
	return a.Unmap().IsLoopback() || a.IsUnspecified()
}

// everywhere reports whether each host has name for itself.
func everywhere(hosts map[string][]envsync.Var, j Job, name string) bool {
	for _, h := range j.Hosts {
		if lookup(hosts[h.Name], name) == "" {
			return false
		}
	}
	return true
}

// prefixNotes warns of hosts on which a name in NCCL_SOCKET_IFNAME is that of an
// interface and the beginning of others' names, too: NCCL may then take one that nobody
// has meant.
func prefixNotes(peers []peer, layout Layout, spec string) []string {
	var texts []string
	hosts := map[string][]string{} // by text
	for i, p := range peers {
		if layout.Count[i] == 0 || p.hello == nil {
			continue
		}
		value := spec
		if p.ifname != "" {
			value = p.ifname
		}
		text := alsoMatched(p.hello.Interfaces, value)
		if text == "" {
			continue
		}
		if hosts[text] == nil {
			texts = append(texts, text)
		}
		hosts[text] = append(hosts[text], p.name)
	}
	for i, text := range texts {
		texts[i] = someOf(hosts[text]) + ": " + text
	}
	return texts
}

// alsoMatched says which interface of NCCL_SOCKET_IFNAME=spec is a prefix of others; "" if none.
func alsoMatched(ifaces []wire.Interface, spec string) string {
	f := parseIfnames(spec)
	if f.exact || f.exclude {
		return ""
	}
	for _, name := range f.names {
		var others []string
		there := false
		for _, i := range ifaces {
			switch {
			case i.Name == name:
				there = true
			case strings.HasPrefix(i.Name, name) && !slices.Contains(f.names, i.Name):
				others = append(others, i.Name)
			}
		}
		if there && others != nil {
			return fmt.Sprintf("NCCL_SOCKET_IFNAME=%s means %s, too, as names are prefixes; the value =%s means no other", spec, strings.Join(others, ", "), spec)
		}
	}
	return ""
}
