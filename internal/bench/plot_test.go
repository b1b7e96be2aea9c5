package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestAPictureIsXMLWithAMarkForEachPoint(t *testing.T) {
	picture := plots([]plot{
		{"p99 <ms> & more", "sessions", [][2]float64{{1, 0.5}, {10, 3}, {100, 20}}},
		{"nothing yet", "objects", [][2]float64{{1, 0}}},
	})
	d, circles := xml.NewDecoder(strings.NewReader(picture)), 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, picture)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "circle" {
			circles++
		}
	}
	if circles != 4 {
		t.Errorf("%d marks for 4 points", circles)
	}
	for _, bad := range []string{"NaN", "Inf", "http://www.w3.org/1999/xlink"} {
		if strings.Contains(picture, bad) {
			t.Errorf("the picture has %s:\n%s", bad, picture)
		}
	}
}
