package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// threats are what somebody may try, what becomes of it, and the tests that try it:
// each in a package.
var threats = []struct {
	threat, end string
	tests       []string
}{
	{"a token that is unknown, cut off, forged or expired; of another issuer, for another audience, without a scope", "401 `invalid_token`, or 403 `insufficient_scope`", []string{"TestBadTokensAreRefused internal/auth", "TestABadTokenOpensNothing cmd"}},
	{"a token without a signature, or signed with the issuer's public key as a shared secret (HS256)", "401 `invalid_token`", []string{"TestBadTokensAreRefused internal/auth"}},
	{"a configuration that would take such tokens, or lets nobody in", "the host does not start", []string{"TestAuthenticationThatLetsNobodyOrEverybodyInIsRefused internal/auth"}},
	{"tokens with keys that the issuer has not, to make the host flood it", "one question in ten seconds", []string{"TestKeysAreRotated internal/auth"}},
	{"an issuer that is down, or that answers for another", "503; keys that are there count for a day", []string{"TestAnIssuerThatIsDownIsNobodysFault internal/auth", "TestKeysAreRotated internal/auth"}},
	{"a token in the address, where it would be logged", "401", []string{"TestATokenInTheAddressIsNone internal/auth"}},
	{"the file of tokens is read by somebody", "it has hashes", []string{"TestTokensAreKnownByTheirHash internal/auth"}},
	{"guessing tokens", "401, then 429", []string{"TestTooManyRequestsAreRefusedByCaller cmd"}},
	{"another caller's session, also after a restart", "403", []string{"TestASessionIsItsOwnersAlone cmd"}},
	{"a host on an address that others reach, without credentials", "it does not start", []string{"TestListeningBeyondLoopbackMustBeAskedFor internal/config"}},
	{"a forged Host, a name made to lead here (DNS rebinding), a page of another origin", "403", []string{"TestForgedHostsAndOriginsAreRefused cmd"}},
	{"a client that sends its request slowly (slow loris), or its body", "its connection is closed after 10 s, a body after 30 s (408)", []string{"TestASlowClientIsCutOff cmd", "TestBodyLimit mcp/front"}},
	{"a client that does not read what it is sent", "its stream is parked at 8 MiB, and cut after 30 s", []string{"TestSlowReaderIsParked mcp/front", "TestNeverReaderIsCut mcp/front"}},
	{"a body of 1 GB, announced or not", "413; unread, or read up to `max_message` at a pace", []string{"TestAHugeBodyIsRefusedUnread cmd", "TestMaxBody mcp/front", "TestALargeBodyIsReadAtAPace mcp/front", "TestARefusedBodyTakesNoFreshMemory mcp/front"}},
	{"large bodies without number, to leave no room for others", "503 for large ones, at three quarters of what the host holds", []string{"TestSmallBodiesHaveRoomBesideLargeOnes mcp/front"}},
	{"10,000 connections on which nothing is asked", "they make room for others", []string{"TestIdleConnectionsDoNotKeepOthersOut cmd", "TestIdleConnectionsMakeRoom internal/limit"}},
	{"requests without a pause", "429", []string{"TestTooManyRequestsAreRefusedByCaller cmd", "TestEachCallerHasItsOwnRate internal/limit"}},
	{"callers without number, to fill the memory of the limits", "10,000 are remembered", []string{"TestRatesRememberSoManyCallers internal/limit"}},
	{"requests that are sent and abandoned, over many sessions", "503 beyond `max_requests`", []string{"TestAbandonedRequestsDoNotPileUp cmd", "TestRequestsCountWithoutTheirClient mcp/session"}},
	{"headers that say to be another caller, to an object", "they say nothing", []string{"TestAProgramHostsItsObjects cmd", "TestTheCallerOfARequestIsWhoTheHostSays actor"}},
	{"opening sessions in a loop", "429", []string{"TestOpeningSessionsInALoopComesToAnEnd cmd", "TestSessionsAreBoundedByServerAndByCaller mcp/session"}},
	{"session ids, tool names, paths with line ends, to forge lines of the log", "they are quoted", []string{"TestNothingThatIsSentForgesALogLine cmd"}},
	{"escape sequences in the name of a client or in what a server writes, for the terminal of who looks at it", "they are printed as texts", []string{"TestWhatOthersWroteIsPrintedAsText cmd"}},
	{"names and ids with `..` and slashes (path traversal)", "404, or another refusal", []string{"TestNoNameLeadsOutOfItsPlace cmd"}},
	{"secrets in the log, in errors, in spans, in `kalpa config show`", "asterisks", []string{"TestNoSecretIsWrittenAnywhere cmd", "TestTranscripts internal/config"}},
	{"secrets among a server's arguments, for who may look at the host", "asterisks", []string{"TestSecretsInArgumentsAreMasked internal/config", "TestNoSecretIsWrittenAnywhere cmd", "TestTheHostsCommandLineIsNoProfile internal/admin"}},
	{"a server that reads the host's environment", "it is not there", []string{"TestAServersEnvironmentIsSmallAndGivenOnPurpose mcp/stdio", "TestTheSupervisorHasNoSecretsOfTheHosts mcp/stdio"}},
	{"a server that uses files which the host has open", "it inherits none", []string{"TestAServerInheritsNoFilesAndHasItsOwnSession mcp/stdio"}},
	{"a server that takes memory, time, processes or files without end", "it is ended, and what it owed is lost", []string{"TestAServerThatTakesTooMuchMemoryIsEnded mcp/stdio", "TestAServerThatTakesTooMuchTimeIsEnded mcp/stdio", "TestAServerThatStartsTooManyProcessesIsEnded mcp/stdio", "TestTheSystemKeepsLimitsOfFilesAndCores mcp/stdio"}},
	{"a server that ends again and again", "it is left alone, up to a minute", []string{"TestACrashLoopIsLeftAlone mcp/stdio"}},
	{"a server that outlives its session, or its host", "it is killed, with all that it has started", []string{"TestCloseLeavesNothingOfAllThatWasStartedRuleK mcp/stdio", "TestNothingOutlivesAHostThatIsKilled mcp/stdio"}},
	{"a certificate that is broken when it is changed", "the one before stays", []string{"TestACertificateIsChangedWhileConnectionsAreOpen cmd"}},
}

// threatTable is their table.
func threatTable() string {
	var s strings.Builder
	fmt.Fprint(&s, "| threat | what becomes of it | tests |\n|---|---|---|\n")
	for _, t := range threats {
		var tests []string
		for _, test := range t.tests {
			name, pkg, _ := strings.Cut(test, " ")
			tests = append(tests, fmt.Sprintf("`%s` in `%s`", name, pkg))
		}
		fmt.Fprintf(&s, "| %s | %s | %s |\n", t.threat, t.end, strings.Join(tests, ", "))
	}
	return s.String()
}

// Every test that is named for a threat is there.
func TestEveryThreatHasItsTests(t *testing.T) {
	for _, threat := range threats {
		if len(threat.tests) == 0 {
			t.Errorf("nothing tries this: %s", threat.threat)
		}
		for _, test := range threat.tests {
			name, pkg, _ := strings.Cut(test, " ")
			files, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
			if err != nil {
				t.Fatal(err)
			}
			found := false
			for _, file := range files {
				code, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				found = found || regexp.MustCompile(`(?m)^func `+name+`\(t \*testing\.T\)`).Match(code)
			}
			if !found {
				t.Errorf("%s is not in %s: %s", name, pkg, threat.threat)
			}
		}
	}
}
