package config

import (
	"slices"
	"strings"
	"testing"
)

func TestSecretsInArgumentsAreMasked(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"-y server-x /srv", "-y server-x /srv"},
		{"--token s3cret /srv", "--token ******** /srv"},
		{"--token=s3cret /srv", "--token=******** /srv"},
		{"--token --verbose x", "--token --verbose x"},
		{"--API-KEY s3cret", "--API-KEY ********"},
		{"--apiKey=s3cret", "--apiKey=********"},
		{"-password s3cret", "-password ********"},
		{"--client-secret=a=b", "--client-secret=********"},
		{"-e GITHUB_TOKEN=s3cret image", "-e GITHUB_TOKEN=******** image"},
		{"-e GITHUB_TOKEN image", "-e GITHUB_TOKEN image"},
		{"--header|Authorization: Bearer s3cret", "--header|Authorization: ********"},
		{"--header|X-Api-Key: s3cret", "--header|X-Api-Key: ********"},
		{"--header=Authorization:Bearer s3cret|x", "--header=Authorization:Bearer ********|x"},
		{"https://ada:s3cret@db.example/x", "https://ada:********@db.example/x"},
		{"https://ada:s3@cret@db.example/x", "https://ada:********@db.example/x"},
		{"--url=postgres://ada:s3cret@db.example:5432/x?sslmode=off", "--url=postgres://ada:********@db.example:5432/x?sslmode=off"},
		{"https://x.example/mcp?a=1&api_key=s3cret", "https://x.example/mcp?a=1&api_key=********"},
		{"https://x.example/a:b=c", "https://x.example/a:b=c"},
		{"--port=80 --name=ada", "--port=80 --name=ada"},
	} {
		split := " "
		if strings.Contains(c.args, "|") || strings.Contains(c.args, ": ") {
			split = "|"
		}
		args := strings.Split(c.args, split)
		before := slices.Clone(args)
		if got := strings.Join(maskArgs(args), split); got != c.want {
			t.Errorf("%s: %s, want %s", c.args, got, c.want)
		}
		if !slices.Equal(args, before) {
			t.Errorf("%s: the arguments themselves have changed", c.args)
		}
	}
}
