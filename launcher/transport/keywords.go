package transport

import (
	"slices"
	"strings"

	"gorun/envsync"
)

// usage is what gorun does with a keyword of ssh_config.
type usage int

const (
	used    usage = iota + 1
	idle          // without effect on what gorun does: terminals, forwardings, logs, passwords
	lacking       // gorun has not got it; it is mentioned when a host cannot be reached
	barring       // gorun has not got it, and would without it go elsewhere, or trust more than ssh does
)

// keyword is one keyword of ssh_config, as the manual writes it.
type keyword struct {
	name  string
	usage usage
}

// keywords are all keywords that OpenSSH 10 knows, by their names in lower case, and those
// that others have added to it. See evaluation.doubt for the rest.
//
// SendEnv and SetEnv are idle on purpose: what the ranks get is decided by gorun's own
// flags, is the same on all hosts, and does not depend on a server's AcceptEnv.
var keywords = map[string]keyword{
	// Where to connect, and how.
	"hostname":                    {"HostName", used},
	"user":                        {"User", used},
	"port":                        {"Port", used},
	"tag":                         {"Tag", used},
	"canonicalizehostname":        {"CanonicalizeHostname", used},
	"canonicaldomains":            {"CanonicalDomains", used},
	"canonicalizemaxdots":         {"CanonicalizeMaxDots", used},
	"canonicalizefallbacklocal":   {"CanonicalizeFallbackLocal", used},
	"canonicalizepermittedcnames": {"CanonicalizePermittedCNAMEs", used},
	"proxyjump":                   {"ProxyJump", used},
	"proxycommand":                {"ProxyCommand", used},
	"proxyusefdpass":              {"ProxyUseFdpass", barring},
	"refuseconnection":            {"RefuseConnection", barring},
	"addressfamily":               {"AddressFamily", used},
	"bindaddress":                 {"BindAddress", used},
	"bindinterface":               {"BindInterface", used},
	"connecttimeout":              {"ConnectTimeout", lacking},  // --connect-timeout is about more than the connection
	"connectionattempts":          {"ConnectionAttempts", idle}, // gorun tries until --connect-timeout has passed
	"tcpkeepalive":                {"TCPKeepAlive", idle},       // frames carry heartbeats
	"serveraliveinterval":         {"ServerAliveInterval", idle},
	"serveralivecountmax":         {"ServerAliveCountMax", idle},
	"ipqos":                       {"IPQoS", idle},
	"compression":                 {"Compression", idle},
	"rekeylimit":                  {"RekeyLimit", idle},
	"channeltimeout":              {"ChannelTimeout", idle},
	"versionaddendum":             {"VersionAddendum", idle},
	"warnweakcrypto":              {"WarnWeakCrypto", idle},

	// Algorithms.
	"ciphers":                  {"Ciphers", used},
	"macs":                     {"MACs", used},
	"kexalgorithms":            {"KexAlgorithms", used},
	"hostkeyalgorithms":        {"HostKeyAlgorithms", used},
	"pubkeyacceptedalgorithms": {"PubkeyAcceptedAlgorithms", used},
	"casignaturealgorithms":    {"CASignatureAlgorithms", used},
	"requiredrsasize":          {"RequiredRSASize", used},

	// The host's key.
	"hostkeyalias":                     {"HostKeyAlias", used},
	"userknownhostsfile":               {"UserKnownHostsFile", used},
	"globalknownhostsfile":             {"GlobalKnownHostsFile", used},
	"stricthostkeychecking":            {"StrictHostKeyChecking", used},
	"hashknownhosts":                   {"HashKnownHosts", used},
	"revokedhostkeys":                  {"RevokedHostKeys", barring},
	"knownhostscommand":                {"KnownHostsCommand", lacking},
	"verifyhostkeydns":                 {"VerifyHostKeyDNS", lacking},
	"nohostauthenticationforlocalhost": {"NoHostAuthenticationForLocalhost", used},
	"checkhostip":                      {"CheckHostIP", idle},
	"updatehostkeys":                   {"UpdateHostKeys", idle},
	"visualhostkey":                    {"VisualHostKey", idle},
	"fingerprinthash":                  {"FingerprintHash", idle},

	// The user's keys.
	"identityfile":                 {"IdentityFile", used},
	"identitiesonly":               {"IdentitiesOnly", used},
	"identityagent":                {"IdentityAgent", used},
	"certificatefile":              {"CertificateFile", used},
	"pubkeyauthentication":         {"PubkeyAuthentication", used},
	"preferredauthentications":     {"PreferredAuthentications", lacking},
	"hostbasedauthentication":      {"HostbasedAuthentication", lacking},
	"gssapiauthentication":         {"GSSAPIAuthentication", idle}, // on by default on some systems; see AuthError.Elsewhere
	"pkcs11provider":               {"PKCS11Provider", lacking},
	"securitykeyprovider":          {"SecurityKeyProvider", idle}, // for keys in files; those of ssh-agent need none
	"addkeystoagent":               {"AddKeysToAgent", idle},
	"batchmode":                    {"BatchMode", used},
	"hostbasedacceptedalgorithms":  {"HostbasedAcceptedAlgorithms", idle},
	"enablesshkeysign":             {"EnableSSHKeysign", idle},
	"passwordauthentication":       {"PasswordAuthentication", idle},
	"kbdinteractiveauthentication": {"KbdInteractiveAuthentication", idle},
	"kbdinteractivedevices":        {"KbdInteractiveDevices", idle},
	"numberofpasswordprompts":      {"NumberOfPasswordPrompts", idle},
	"gssapidelegatecredentials":    {"GSSAPIDelegateCredentials", idle},

	// Sessions of people, forwardings, logs.
	"sendenv":                  {"SendEnv", idle},
	"setenv":                   {"SetEnv", idle},
	"remotecommand":            {"RemoteCommand", idle},
	"localcommand":             {"LocalCommand", idle},
	"permitlocalcommand":       {"PermitLocalCommand", idle},
	"requesttty":               {"RequestTTY", idle},
	"sessiontype":              {"SessionType", idle},
	"stdinnull":                {"StdinNull", idle},
	"forkafterauthentication":  {"ForkAfterAuthentication", idle},
	"escapechar":               {"EscapeChar", idle},
	"enableescapecommandline":  {"EnableEscapeCommandline", idle},
	"obscurekeystroketiming":   {"ObscureKeystrokeTiming", idle},
	"controlmaster":            {"ControlMaster", idle},
	"controlpath":              {"ControlPath", idle},
	"controlpersist":           {"ControlPersist", idle},
	"forwardagent":             {"ForwardAgent", idle},
	"forwardx11":               {"ForwardX11", idle},
	"forwardx11timeout":        {"ForwardX11Timeout", idle},
	"forwardx11trusted":        {"ForwardX11Trusted", idle},
	"xauthlocation":            {"XAuthLocation", idle},
	"localforward":             {"LocalForward", idle},
	"remoteforward":            {"RemoteForward", idle},
	"dynamicforward":           {"DynamicForward", idle},
	"permitremoteopen":         {"PermitRemoteOpen", idle},
	"gatewayports":             {"GatewayPorts", idle},
	"exitonforwardfailure":     {"ExitOnForwardFailure", idle},
	"clearallforwardings":      {"ClearAllForwardings", idle},
	"streamlocalbindmask":      {"StreamLocalBindMask", idle},
	"streamlocalbindunlink":    {"StreamLocalBindUnlink", idle},
	"tunnel":                   {"Tunnel", idle},
	"tunneldevice":             {"TunnelDevice", idle},
	"loglevel":                 {"LogLevel", idle},
	"logverbose":               {"LogVerbose", idle},
	"syslogfacility":           {"SyslogFacility", idle},
	"ignoreunknown":            {"IgnoreUnknown", used},
	"gssapikeyexchange":        {"GSSAPIKeyExchange", idle}, // these are Debian's and Fedora's
	"gssapitrustdns":           {"GSSAPITrustDNS", idle},
	"gssapirenewalforcesrekey": {"GSSAPIRenewalForcesRekey", idle},
	"gssapikexalgorithms":      {"GSSAPIKexAlgorithms", idle},
	"gssapiclientidentity":     {"GSSAPIClientIdentity", idle},
	"gssapiserveridentity":     {"GSSAPIServerIdentity", idle},
}

// silent are keywords that ssh takes and that do nothing any more, and those of other
// ssh's that may read the same files: Debian's, Apple's, HPN-SSH, PKIX-SSH and Sun's.
const silent = `
	afstokenpassing cipher compressionlevel fallbacktorsh globalknownhostsfile2 kerberosauthentication kerberostgtpassing
	protocol rhostsauthentication rhostsrsaauthentication rsaauthentication useprivilegedport userknownhostsfile2 useroaming usersh
	protocolkeepalives setuptimeout useblacklistedkeys
	usekeychain askpassgui keychainintegration
	disablemtaes fallback fallbackport hpnbuffersize hpndisabled metrics metricsinterval metricspath nonemacenabled noneenabled
	noneswitch tcprcvbuf tcprcvbufpoll usemptcp
	allowedcertpurpose cacertificatefile cacertificatepath carevocationfile carevocationpath cacertificateldapurl carevocationldapurl
	cacldapurl cacldapversion crlldapurl crlldapversion digest hostbasedalgorithms mandatorycrl pubkeyalgorithms storefile storeuri
	useocsp userca usercacertificatefile usercacertificatepath usercarevocationfile usercarevocationpath vacertificatefile vaocspresponderurl
	vatype x509keyalgorithm
	disablebanner ignoreifunknown kmfpolicydatabase kmfpolicyname trustedanchorkeystore useopensslengine
	usefips140
`

// known reports whether gorun knows a keyword of ssh_config, in lower case and by its
// newest name.
func known(key string) bool {
	switch key {
	case "host", "match", "include":
		return true
	}
	return keywords[key].usage != 0 || slices.Contains(strings.Fields(silent), key)
}

// misspelt returns the keyword for which an unknown one was probably meant; "": none.
func misspelt(key string) string {
	names := []string{"Host", "Match", "Include"}
	for _, k := range keywords {
		names = append(names, k.name)
	}
	slices.Sort(names)
	return nearest(key, names)
}

// nearest returns the name that word probably stands for, whatever its case: one letter
// may be wrong, in a long word two. "": none.
func nearest(word string, names []string) (like string) {
	best := 1 // more than may be wrong
	switch n := len(word); {
	case n >= 8:
		best = 3
	case n >= 3:
		best = 2
	}
	for _, name := range names {
		if max(len(word)-len(name), len(name)-len(word)) >= best {
			continue
		}
		if n := envsync.Edits(strings.ToLower(word), strings.ToLower(name)); n < best {
			best, like = n, name
		}
	}
	return like
}

// otherNames are older names of keywords.
var otherNames = map[string]string{
	"pubkeyacceptedkeytypes": "pubkeyacceptedalgorithms", "hostbasedkeytypes": "hostbasedacceptedalgorithms",
	"identityfile2": "identityfile", "dsaauthentication": "pubkeyauthentication", "smartcarddevice": "pkcs11provider",
	"keepalive": "tcpkeepalive", "challengeresponseauthentication": "kbdinteractiveauthentication",
	"skeyauthentication": "kbdinteractiveauthentication", "tisauthentication": "kbdinteractiveauthentication",
}
