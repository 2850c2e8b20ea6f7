package envsync

import "testing"

func TestMeaning(t *testing.T) {
	tests := []struct{ name, value, want string }{
		{"NCCL_ALGO", "ring", "Ring"},
		{"NCCL_ALGO", "^TREE,collnetdirect", "^Tree,CollNetDirect"},
		{"NCCL_ALGO", "ring;ALLREDUCE:tree,nvlstree", "Ring;AllReduce:Tree,NVLSTree"},
		{"NCCL_ALGO", "rings\u00e9", "rings\u00e9"},
		{"NCCL_PROTO", "ll128,simple", "LL128,Simple"},
		{"NCCL_BUFFSIZE", "0x400000", "4194304"},
		{"NCCL_IB_DISABLE", "+1", "1"},
		{"NCCL_IB_DISABLE", "01", "1"},
		{"NCCL_IB_DISABLE", "true", "true"},
		{"NCCL_IB_DISABLE", "1 # off", "1 # off"},
		{"NCCL_IB_DISABLE", "", ""},
		{"NCCL_MNNVL_UUID", "99999999999999999999", "99999999999999999999"},
		{"NCCL_LAUNCH_MODE", "group", "GROUP"},
		{"NCCL_P2P_LEVEL", "nvl", "nvl"}, // NCCL knows it in capitals only
		{"NCCL_SOCKET_IFNAME", "Eth0", "Eth0"},
		{"NCCL_OF_TOMORROW", "0x1", "0x1"},
		{"UCX_TLS", "TCP", "TCP"},
	}
	for _, tt := range tests {
		if got := Meaning(tt.name, tt.value); got != tt.want {
			t.Errorf("%s=%s: got %q; want %q", tt.name, tt.value, got, tt.want)
		}
		if got := Meaning(tt.name, tt.want); got != tt.want {
			t.Errorf("%s=%s: got %q the second time", tt.name, tt.want, got)
		}
	}
	if DigestOf([]string{"NCCL_ALGO=ring", "NCCL_NTHREADS=0x100"}) != DigestOf([]string{"NCCL_NTHREADS=256", "NCCL_ALGO=Ring"}) {
		t.Error("one meaning has two digests")
	}
}
