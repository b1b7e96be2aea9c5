// Package auth says who calls, from what the call bears.
//
// A caller bears a token, in the header Authorization and nowhere else: one that this
// host's operator has given out ([NewToken]; the host keeps its hash alone), or a JWT of
// the one issuer that the host trusts. From it comes the caller's subject, which owns
// the sessions that it opens.
//
// # Tokens of an issuer
//
// The issuer's metadata is discovered when the first such token comes, and its keys
// are fetched then: a host starts while its issuer is down. Keys are fetched anew when
// they are older than [KeysAge], and when a token names one that is not there, but then
// not more than once in [KeysPause]: nobody can make a host flood its issuer. While the
// issuer can't be reached, the keys that are there are used up to [KeysLast].
//
// A token counts when its signature is of an algorithm on the list and made by one of
// those keys, its issuer is the one, its audience is one of this host's, it has expired
// or begins to count by no more than the leeway, and it has all scopes. Keys for shared
// secrets are never used, so that no public key is taken for one.
//
// # Subjects
//
// A token that was given out under a name has the subject "token:NAME"; a JWT's is its
// sub, which must not begin so.
//
// # What is refused
//
// A [Denial] is the whole answer, with the header WWW-Authenticate as RFC 6750 and RFC
// 9728 have it: where the metadata of the resource is, the scope, and the error. It says
// what kind of thing is wrong, and nothing of the token.
package auth
