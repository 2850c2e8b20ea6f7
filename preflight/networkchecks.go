package preflight

// networkChecks are those of area "network".
func networkChecks() []Check {
	return []Check{
		{ID: "names", Area: "network", Title: "every name means the same on all hosts", Explain: explainNames, run: checkNames},
		{ID: "own-name", Area: "network", Title: "every host calls itself by an address that others reach", Explain: explainOwnName, run: checkOwnName},
		{ID: "address", Area: "network", Title: "no two hosts have one IP address", Explain: explainAddress, run: checkAddress},
		{ID: "mac", Area: "network", Title: "no two hosts have one hardware address", Explain: explainMAC, run: checkMAC},
		{ID: "interface", Area: "network", Title: "ranks meet by an interface that is right on every host", Explain: explainInterface, run: checkInterface},
		{ID: "ports", Area: "network", Title: "every host has enough ports for connections", Explain: explainPorts, run: checkPorts},
		{ID: "connect", Area: "network", Title: "hosts reach each other in both directions", Explain: explainConnect, run: checkConnect},
		{ID: "mtu", Area: "network", Title: "the interfaces that ranks use have one MTU", Explain: explainMTU, run: checkMTU},
		{ID: "mtu-path", Area: "network", Title: "packets of full size get through", Explain: explainMTUPath, run: checkMTUPath},
	}
}
