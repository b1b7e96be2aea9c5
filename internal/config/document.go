package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// parseDocument reads YAML or JSON into a tree with line numbers. The tree is nil
// when the document is empty. isJSON tells which of the two it was.
//
// JSON has a reader of its own: YAML's refuses some of it, such as characters
// beyond the basic plane that are written as two escapes.
func parseDocument(data []byte) (tree *yaml.Node, isJSON bool, p *Problem) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		tree, jsonProblem := parseJSON(data)
		if jsonProblem == nil {
			return tree, true, nil
		}
		if tree, yamlProblem := parseYAML(data); yamlProblem == nil {
			return tree, true, nil // JSON with comments or a comma too many
		}
		return nil, true, jsonProblem
	}
	tree, p = parseYAML(data)
	if p != nil {
		p.Line = min(p.Line, 1+bytes.Count(data, []byte("\n"))) // YAML's reader may count past the end
	}
	return tree, false, p
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

func parseYAML(data []byte) (*yaml.Node, *Problem) {
	d := yaml.NewDecoder(bytes.NewReader(data))
	var first, second yaml.Node
	if err := d.Decode(&first); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, yamlProblem(err)
	}
	if err := d.Decode(&second); err == nil {
		return nil, &Problem{Line: second.Line, Text: "a second document begins here: a configuration is one"}
	} else if !errors.Is(err, io.EOF) {
		return nil, yamlProblem(err)
	}
	if first.Kind == yaml.DocumentNode && len(first.Content) == 1 {
		return first.Content[0], nil
	}
	return nil, nil
}

func yamlProblem(err error) *Problem {
	p := &Problem{Text: "not YAML: " + yamlLine.ReplaceAllString(err.Error(), "")}
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		p.Line, _ = strconv.Atoi(m[1])
	}
	return p
}

func parseJSON(data []byte) (*yaml.Node, *Problem) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	at := func(offset int64) int {
		return 1 + bytes.Count(data[:min(offset, int64(len(data)))], []byte("\n"))
	}
	tree, err := jsonNode(d, at)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("something follows the end of the object")
		}
	}
	if err == nil {
		return tree, nil
	}
	line := at(d.InputOffset())
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		line = at(syntax.Offset)
	}
	text := err.Error()
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		line, text = at(int64(len(data))), "it ends in the middle"
	}
	return nil, &Problem{Line: line, Text: "not JSON: " + text}
}

// jsonNode reads one value as the node that YAML's reader would make of it.
func jsonNode(d *json.Decoder, at func(int64) int) (*yaml.Node, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	n := &yaml.Node{Kind: yaml.ScalarNode, Line: at(d.InputOffset())}
	switch t := t.(type) {
	case json.Delim:
		n.Kind, n.Tag = yaml.MappingNode, "!!map"
		if t == '[' {
			n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
		}
		for d.More() {
			// In an object keys come through here too: strings, one value after each.
			child, err := jsonNode(d, at)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, child)
		}
		_, err = d.Token()
	case string:
		n.Tag, n.Value = "!!str", t
	case json.Number:
		n.Tag, n.Value = "!!int", t.String()
		if strings.ContainsAny(n.Value, ".eE") {
			n.Tag = "!!float"
		}
	case bool:
		n.Tag, n.Value = "!!bool", strconv.FormatBool(t)
	case nil:
		n.Tag, n.Value = "!!null", "null"
	default:
		err = fmt.Errorf("unexpected %v", t)
	}
	return n, err
}
