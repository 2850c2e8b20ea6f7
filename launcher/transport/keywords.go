package transport

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

// keywords are all keywords that OpenSSH 10 knows, by their names in lower case. Others
// are skipped: a newer ssh may have more, and one that is only misspelt ssh refuses itself.
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
	"ignoreunknown":            {"IgnoreUnknown", idle},
	"gssapikeyexchange":        {"GSSAPIKeyExchange", idle}, // these are Debian's and Fedora's
	"gssapitrustdns":           {"GSSAPITrustDNS", idle},
	"gssapirenewalforcesrekey": {"GSSAPIRenewalForcesRekey", idle},
	"gssapikexalgorithms":      {"GSSAPIKexAlgorithms", idle},
	"gssapiclientidentity":     {"GSSAPIClientIdentity", idle},
	"gssapiserveridentity":     {"GSSAPIServerIdentity", idle},
}

// otherNames are older names of keywords.
var otherNames = map[string]string{
	"pubkeyacceptedkeytypes": "pubkeyacceptedalgorithms", "hostbasedkeytypes": "hostbasedacceptedalgorithms",
	"identityfile2": "identityfile", "dsaauthentication": "pubkeyauthentication", "smartcarddevice": "pkcs11provider",
	"keepalive": "tcpkeepalive", "challengeresponseauthentication": "kbdinteractiveauthentication",
}
