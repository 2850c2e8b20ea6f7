package launcher

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"gorun/envsync"
	"gorun/hostfile"
	"gorun/launcher/wire"
)

// decidedAtLaunch stands for values that only the hosts can tell.
const decidedAtLaunch = "<decided at launch>"

// DryRun writes the layout and every rank's environment as far as they are known
// without a connection. Hidden values are not shown. It returns an
// *UnknownSlotsError if a host list leaves the slots to the hosts. cores and gpus are
// this machine's, as its agent would count them; they count when no host is named.
func DryRun(w io.Writer, job Job, cores, gpus int) error {
	env, notes, err := job.environment()
	if err != nil {
		return err
	}
	hosts, offers, assumed, err := job.knownOffers(cores, gpus)
	if err != nil {
		return err
	}
	layout, err := job.Place(offers)
	if err != nil {
		return err
	}
	if err := job.checkStdin(layout); err != nil {
		return err
	}
	if _, err := job.files(decidedAtLaunch, layout, func(i int) string { return hosts[i].Name }); err != nil {
		return err
	}
	cargo, err := loadCargo(job, job.Dir)
	if err != nil {
		return err
	}
	p := &planner{job: job, offers: offers, id: strings.Repeat("0", 16), env: env}
	p.lay(layout)
	for _, h := range hosts {
		p.hosts = append(p.hosts, h.Name)
		p.site.addrs, p.site.ports = append(p.site.addrs, decidedAtLaunch), append(p.site.ports, 1)
		p.site.ifaces = append(p.site.ifaces, decidedAtLaunch)
	}
	for _, n := range notes {
		if n.Level == "warn" {
			fmt.Fprintf(w, "warning: %s\n", n.Text)
		}
	}
	if len(assumed) > 0 {
		fmt.Fprintf(w, "warning: slots of %s are known to the hosts only; assumed to be enough for -ppn %d\n", someOf(assumed), job.PerHost)
	}
	for _, text := range job.meshWarnings(layout, offers, 0) {
		fmt.Fprintf(w, "warning: %s\n", text)
	}
	printLayout(w, job, hosts, p)
	printHosts(w, hosts)
	printCargo(w, cargo)
	printEnv(w, p)
	return nil
}

// knownOffers are the hosts' offers without asking them. When no host was named, it is
// this machine's, made of cores and gpus. Where only the hosts know their slots, it is
// assumed that these suffice for the ranks that are asked for on each, if they are.
func (j Job) knownOffers(cores, gpus int) (hosts []hostfile.Host, offers []Offer, assumed []string, err error) {
	hosts = j.Hosts
	var self *wire.Hello
	if len(hosts) == 0 {
		hosts = []hostfile.Host{{Name: "localhost", Slots: -1, File: thisMachine}}
		self = &wire.Hello{Cores: cores, GPUs: gpus}
	}
	var unknown []string
	for _, h := range hosts {
		o, ok := offer(h, self)
		if !ok {
			unknown = append(unknown, h.Name)
			o.Slots = min(j.PerHost, MaxRanks) * len(j.Apps)
			o.Limit, o.Origin = o.Slots, "as many as asked for"
		}
		offers = append(offers, o)
	}
	if len(unknown) > 0 && j.PerHost == 0 {
		return nil, nil, nil, &UnknownSlotsError{unknown}
	}
	return hosts, offers, unknown, nil
}

func printLayout(w io.Writer, job Job, hosts []hostfile.Host, p *planner) {
	fmt.Fprintf(w, "%s on %s\n\n", count(p.layout.Size(), "rank"), count(len(p.nodes), "host"))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "rank\thost\tlocal rank\tprogram")
	for rank, place := range p.layout.Ranks {
		fmt.Fprintf(t, "%d\t%s\t%d\t%s\n", rank, hosts[place.Host].Name, place.Local, job.Apps[place.App].text())
	}
	t.Flush()
	printMesh(w, p.layout, p.offers)
	if job.binds() {
		fmt.Fprintf(w, "\nbound to %s: %s\n", job.BindTo, decidedAtLaunch)
	}
	dirs := map[string]bool{}
	for _, a := range job.Apps {
		dirs[cmp.Or(a.Dir, job.Dir)] = true
	}
	fmt.Fprintln(w)
	for _, a := range job.Apps {
		dir := quoteArg(cmp.Or(a.Dir, job.Dir))
		if len(dirs) == 1 {
			fmt.Fprintf(w, "working directory: %s\n", dir)
			break
		}
		fmt.Fprintf(w, "working directory of %s: %s\n", a.text(), dir)
	}
}

// printCargo lists what is brought to the hosts.
func printCargo(w io.Writer, c *cargo) {
	if c == nil {
		return
	}
	fmt.Fprintf(w, "\nfor every host, %s:\n", sizeText(c.size()))
	for _, f := range c.files {
		size := sizeText(f.size)
		if f.empty {
			size = "empty directory"
		}
		fmt.Fprintf(w, "  %s  (%s, %s)\n", quoteArg(f.name), quoteArg(f.path), size)
	}
}

// text is the program with its arguments, for people.
func (a App) text() string {
	args := envsync.HideArgs(a.Args)
	quoted := make([]string, len(args))
	for i, a := range args {
		quoted[i] = quoteArg(a)
	}
	return strings.Join(quoted, " ")
}

// printHosts writes what the list says of its hosts beside their slots, if it does.
func printHosts(w io.Writer, hosts []hostfile.Host) {
	title := "\nhosts:\n"
	for _, h := range hosts {
		if parts := said(h); parts != nil {
			fmt.Fprintf(w, "%s  %s: %s\n", title, h.Name, strings.Join(parts, ", "))
			title = ""
		}
	}
}

// said is what a list says of h beside its slots.
func said(h hostfile.Host) []string {
	var parts []string
	for _, p := range []struct{ what, value string }{{"address", h.Addr}, {"user", h.User}, {"rack", h.Rack}, {"switch", h.Switch}, {"domain", h.Domain}} {
		if p.value != "" {
			parts = append(parts, p.what+" "+p.value)
		}
	}
	if h.Port != 0 {
		parts = append(parts, fmt.Sprintf("port %d", h.Port))
	}
	return parts
}

// quoteArg shows an argument as it is when it is plain, else quoted.
func quoteArg(s string) string {
	if q := fmt.Sprintf("%q", s); s == "" || strings.ContainsAny(s, " \t'\"$&|;<>()*?[]#~`\\") || q != `"`+s+`"` {
		return q
	}
	return s
}

func printEnv(w io.Writer, p *planner) {
	var hosts []string
	for _, h := range p.nodes {
		hosts = append(hosts, p.hosts[h])
	}
	printShared(w, p.job, p.env, hosts, printVars)
	for rank := range p.layout.Ranks {
		fmt.Fprintf(w, "\nrank %d:\n", rank)
		vars := append(p.rankEnv(rank), envsync.Var{Name: "GORUN_EXE", Value: decidedAtLaunch, Origin: envsync.FromGorun})
		for i, v := range vars {
			switch v.Name {
			case "MASTER_PORT", "GORUN_JOB_ID", "GORUN_STORE":
				vars[i].Value = decidedAtLaunch
			}
		}
		printVars(w, vars)
		printVars(w, append(p.lack(rank), p.unlessSet(rank, unbuffered, "1")...))
	}
}

// printShared writes what all ranks get, those of a program, and those on a host.
func printShared(w io.Writer, job Job, env environment, hosts []string, print func(io.Writer, []envsync.Var)) {
	fmt.Fprintf(w, "\nevery rank:\n")
	for _, entry := range prepended(job.Prefix) {
		name, dir, _ := strings.Cut(entry, "=")
		fmt.Fprintf(w, "  %s begins with %s  (--prefix)\n", name, quoteArg(dir))
	}
	print(w, env.job)
	for i, vars := range env.apps {
		if len(vars) > 0 {
			fmt.Fprintf(w, "\nevery rank of %s:\n", job.Apps[i].text())
			print(w, vars)
		}
	}
	for _, g := range alikeHosts(env, hosts) {
		fmt.Fprintf(w, "\nevery rank on %s:\n", strings.Join(g, ", "))
		print(w, env.hosts[g[0]])
	}
}

// alikeHosts groups the hosts that have variables of their own by what these are.
func alikeHosts(env environment, hosts []string) [][]string {
	var groups [][]string
	index := map[string]int{} // in groups, by variables
	for _, h := range hosts {
		key := fmt.Sprintf("%q", env.hosts[h])
		i, ok := index[key]
		switch {
		case len(env.hosts[h]) == 0:
		case ok:
			groups[i] = append(groups[i], h)
		default:
			index[key] = len(groups)
			groups = append(groups, []string{h})
		}
	}
	return groups
}

func printVars(w io.Writer, vars []envsync.Var) {
	for _, v := range vars {
		fmt.Fprintf(w, "  %s\n", envsync.Explain(v))
	}
}
