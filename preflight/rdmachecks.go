package preflight

// rdmaChecks are those of area "rdma".
func rdmaChecks() []Check {
	return []Check{
		{ID: "rdma-used", Area: "rdma", Title: "all hosts use RDMA, or none does", Explain: explainRDMAUsed, run: checkRDMAUsed},
		{ID: "rdma-list", Area: "rdma", Title: "NCCL_IB_HCA means the same on every host", Explain: explainRDMAList, run: checkRDMAList},
		{ID: "rdma-count", Area: "rdma", Title: "every host has the same number of HCA ports", Explain: explainRDMACount, run: checkRDMACount},
		{ID: "rdma-port", Area: "rdma", Title: "the ports of all HCAs are ACTIVE", Explain: explainRDMAPort, run: checkRDMAPort},
		{ID: "rdma-sm", Area: "rdma", Title: "a subnet manager has set up every InfiniBand port", Explain: explainRDMASM, run: checkRDMASM},
		{ID: "rdma-layer", Area: "rdma", Title: "NCCL uses one kind of RDMA network", Explain: explainRDMALayer, run: checkRDMALayer},
		{ID: "rdma-rate", Area: "rdma", Title: "HCA ports run at the same rate", Explain: explainRDMARate, run: checkRDMARate},
		{ID: "rdma-pkey", Area: "rdma", Title: "all hosts are in one InfiniBand partition", Explain: explainRDMAPKey, run: checkRDMAPKey},
		{ID: "rdma-gid", Area: "rdma", Title: "NCCL finds a routable GID on every RoCE port", Explain: explainRDMAGID, run: checkRDMAGID},
		{ID: "rdma-subnet", Area: "rdma", Title: "each rail is one network on all hosts", Explain: explainRDMASubnet, run: checkRDMASubnet},
		{ID: "rdma-cross", Area: "rdma", Title: "rails reach each other where NCCL needs it", Explain: explainRDMACross, run: checkRDMACross},
		{ID: "rdma-mtu", Area: "rdma", Title: "each rail has one MTU on all hosts", Explain: explainRDMAMTU, run: checkRDMAMTU},
		{ID: "rdma-open", Area: "rdma", Title: "ranks can open every HCA", Explain: explainRDMAOpen, run: checkRDMAOpen},
		{ID: "rdma-memlock", Area: "rdma", Title: "ranks may lock the memory that RDMA needs", Explain: explainRDMAMemlock, run: checkRDMAMemlock},
		{ID: "gpudirect", Area: "rdma", Title: "HCAs read GPU memory directly on every host", Explain: explainGPUDirect, run: checkGPUDirect},
		{ID: "rdma-firmware", Area: "rdma", Title: "HCAs are of one model and firmware", Explain: explainRDMAFirmware, run: checkRDMAFirmware},
		{ID: "rdma-pcie", Area: "rdma", Title: "HCAs have their full PCIe width and speed", Explain: explainRDMAPCIe, run: checkRDMAPCIe},
		{ID: "rdma-kernel", Area: "rdma", Title: "the kernel says nothing bad of HCAs", Explain: explainRDMAKernel, run: checkRDMAKernel},
		{ID: "rdma-counters", Area: "rdma", Title: "error counters of HCAs do not grow", Explain: explainRDMACounters, run: checkRDMACounters, Full: true},
		{ID: "rdma-traffic", Area: "rdma", Title: "RDMA comes through on every rail", Explain: explainRDMATraffic, run: checkRDMATraffic, Full: true},
	}
}
