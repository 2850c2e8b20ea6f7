package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gorun/envsync"
)

// parameters gathers --mca and its kin: as with mpirun, each is a variable of the
// ranks. Of one parameter there is one value.
type parameters struct {
	flag, prefix string
	dst          *[]envsync.Setting
	values       map[string]string
}

func (v *parameters) Set(s string) error {
	name, value, _ := strings.Cut(s, "=")
	if err := checkParameter(v.flag, name); err != nil {
		return err
	}
	if old, ok := v.values[name]; ok {
		if old != value {
			show := func(value string) string { return envsync.Show(envsync.Var{Name: name, Value: shellQuote(value)}) }
			return &usageError{show(old) + " and " + show(value) + " contradict each other", nil}
		}
		return nil
	}
	if v.values == nil {
		v.values = map[string]string{}
	}
	v.values[name] = value
	*v.dst = append(*v.dst, envsync.Setting{Flag: v.flag, Text: v.prefix + name + "=" + value})
	return nil
}

func (v *parameters) String() string { return "" }
func (v *parameters) Type() string   { return "parameter" }

// checkParameter says what is wrong with the name of a parameter.
func checkParameter(flag, name string) error {
	if name == "" || !isVariable("_"+name) {
		return &usageError{fmt.Sprintf("%q is not the name of a parameter", envsync.Conceal(name)), []string{"write " + flag + " NAME VALUE, as in " + flag + " btl_tcp_if_include eth0"}}
	}
	return nil
}

// isParameter reports whether the flag of that name takes an MCA parameter.
func isParameter(name string) bool { return strings.HasSuffix(name, "mca") }

// launching returns the flags of gorun that mean the same as the MCA parameter
// name=value; ok is false if that is not about launching, but the program's own. The
// error is a *usageError.
func launching(name, value string) (uses []use, ok bool, err error) {
	if flag := sameFlag(name); flag != "" {
		return []use{{name: flag, value: value}}, true, nil
	}
	if flag, on := sameSwitch(name); flag != "" {
		v, err := parameterSwitch(value)
		return []use{{name: flag, value: strconv.FormatBool(v == on)}}, true, err
	}
	switch name {
	case "plm_rsh_args", "plm_ssh_args", "pls_rsh_args":
		uses, err = sshArguments(value)
	case "plm_rsh_agent", "plm_ssh_agent", "pls_rsh_agent", "orte_rsh_agent":
		uses, err = sshAgent(value)
	case "mca_base_env_list":
		for item := range strings.SplitSeq(value, ";") {
			uses = append(uses, use{name: "x", value: strings.TrimSpace(item)})
		}
	default:
		err = otherLaunch(name, value)
		return nil, err != nil, err
	}
	return uses, true, err
}

// sameFlag is gorun's flag with the meaning and the values of an MCA parameter, or "".
func sameFlag(name string) string {
	switch name {
	case "orte_default_hostfile", "prte_default_hostfile":
		return "default-hostfile"
	case "rmaps_base_n_pernode", "rmaps_ppr_n_pernode":
		return "ppn"
	case "rmaps_base_mapping_policy", "rmaps_default_mapping_policy":
		return "map-by"
	case "rmaps_base_ranking_policy", "rmaps_default_ranking_policy":
		return "rank-by"
	case "hwloc_base_binding_policy", "hwloc_default_binding_policy":
		return "bind-to"
	case "plm_rsh_num_concurrent", "plm_ssh_num_concurrent":
		return "fanout"
	case "odls_base_sigkill_timeout":
		return "kill-grace"
	}
	return ""
}

// sameSwitch is gorun's flag for an MCA parameter that is on or off, or "", and which of
// the two turns that flag on.
func sameSwitch(name string) (flag string, on bool) {
	switch name {
	case "orte_tag_output", "prte_tag_output":
		return "tag-output", true
	case "orte_timestamp_output", "prte_timestamp_output":
		return "timestamp-output", true
	case "orte_report_bindings", "hwloc_base_report_bindings", "hwloc_report_bindings":
		return "report-bindings", true
	case "orte_display_alloc", "orte_display_allocation", "rmaps_base_display_map", "rmaps_base_display_devel_map":
		return "display-map", true
	case "rmaps_base_oversubscribe":
		return "oversubscribe", true
	case "rmaps_base_no_oversubscribe":
		return "oversubscribe", false
	case "orte_abort_on_non_zero_status", "orte_abort_non_zero_exit":
		return "keep-going", false
	}
	return "", false
}

// parameterSwitch reads the value of an MCA parameter that is on or off.
func parameterSwitch(s string) (bool, error) {
	switch strings.ToLower(s) {
	case "1", "true", "yes", "t", "y", "enabled", "on":
		return true, nil
	case "0", "false", "no", "f", "n", "disabled", "off":
		return false, nil
	}
	return false, &usageError{fmt.Sprintf("%q is neither true nor false", s), nil}
}

// otherLaunch is the error for a parameter that asks for a launch that gorun does not
// make; nil if value asks for what gorun does anyway, or the parameter is not about
// launching.
func otherLaunch(name, value string) error {
	words := strings.Split(value, ",")
	switch name {
	case "plm":
		if !strings.HasPrefix(value, "^") && !slices.Contains(words, "rsh") && !slices.Contains(words, "ssh") {
			return &usageError{fmt.Sprintf("gorun does not start by %q", value), []string{"gorun asks no scheduler: give the hosts with -hostfile or -H"}}
		}
	case "rmaps":
		if slices.Contains(words, "seq") {
			return &usageError{"gorun does not give each line of a hostfile the next rank",
				[]string{"ranks are numbered host by host in the order of the hostfile; to start on other hosts, change that order"}}
		}
		if slices.Contains(words, "rank_file") {
			return noRankfile()
		}
	case "rmaps_rank_file_path", "orte_rankfile":
		return noRankfile()
	case "orte_output_filename":
		return &usageError{"gorun names the files of the ranks itself", peerHints("output-filename")}
	case "rmaps_base_no_schedule_local":
		if on, err := parameterSwitch(value); err != nil || on {
			return &usageError{"ranks run only on the hosts that are named", []string{"leave this one out with --exclude, or do not name it"}}
		}
	}
	return nil
}

func noRankfile() error { return &usageError{"gorun reads no rankfile", peerHints("rankfile")} }
