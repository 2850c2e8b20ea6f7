package topo

import (
	"fmt"
	"strings"
)

// Domain is a set of hosts whose GPUs all reach each other by NVLink, as those of one rack of
// GB200 NVL72. A host whose NVLinks end at itself is a domain alone, with Cluster "".
type Domain struct {
	Cluster, Clique string // clusterUuid and cliqueId
	Hosts           []string
	Note            string // a sentence part on why a host is alone though it has a fabric; or ""
}

// HostGPUs are the GPUs of one host.
type HostGPUs struct {
	Host string
	GPUs []GPU
}

// Domains parts hosts by the NVLink domain that their GPUs are in, each host in one, domains and
// their hosts in the order given. A host whose GPUs do not agree is in no domain with others.
func Domains(hosts []HostGPUs) []Domain {
	var all []Domain
	at := map[[2]string]int{}
	for _, h := range hosts {
		key, note := fabricOf(h.GPUs)
		if i, ok := at[key]; ok && key[0] != "" {
			all[i].Hosts = append(all[i].Hosts, h.Host)
			continue
		}
		if key[0] != "" {
			at[key] = len(all)
		}
		all = append(all, Domain{Cluster: key[0], Clique: key[1], Hosts: []string{h.Host}, Note: note})
	}
	return all
}

func fabricOf(gpus []GPU) (key [2]string, note string) {
	for i, g := range gpus {
		k := g.fabric()
		if i == 0 {
			key = k
		}
		if k != key {
			return [2]string{}, fmt.Sprintf("GPU%d is in NVLink domain %s and GPU%d in %s", gpus[0].Index, domainName(key), g.Index, domainName(k))
		}
	}
	return key, ""
}

func domainName(key [2]string) string {
	if key[0] == "" {
		return "none"
	}
	return fmt.Sprintf("%q clique %q", key[0], key[1])
}

// fabric returns the domain that a GPU is in. Without a cluster, a clique number means nothing.
func (g GPU) fabric() [2]string {
	cluster := strings.ToLower(strings.TrimSpace(g.FabricCluster))
	if strings.Trim(cluster, "0-") == "" || cluster == "n/a" {
		return [2]string{}
	}
	return [2]string{cluster, strings.TrimSpace(g.FabricClique)}
}
