package cmd

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/kalpahost/kalpa/internal/auth"
)

func newToken() *cobra.Command {
	var out output
	token := &cobra.Command{
		Use:   "token NAME",
		Short: "Make a token for a caller, and the line by which a host knows it",
		Long: `token makes a token for somebody, and prints two lines: the token, for its bearer, and
the line that stands for it in the host's --auth-tokens-file. The file has hashes alone:
nobody can read a token there, and one that is lost is replaced by another.

A host takes the file over when it starts, and on SIGHUP. A line that is taken out ends
its token; sessions belong to the name, and are there for the name's next token.`,
		Example: `  kalpa token ada | tee /dev/tty | tail -n 1 >> tokens
  kalpa serve --listen 0.0.0.0:8080 --auth-tokens-file tokens --tls-cert cert.pem --tls-key key.pem`,
		Args: takes("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			token, line, err := auth.NewToken(args[0])
			if err != nil {
				return &usageError{err: err}
			}
			v := struct {
				Token string `json:"token"`
				Line  string `json:"line"`
			}{token, line}
			return out.print(cmd.OutOrStdout(), v, func(w io.Writer) { fmt.Fprintf(w, "%s\n%s\n", token, line) })
		},
	}
	out.add(token.Flags())
	return token
}
