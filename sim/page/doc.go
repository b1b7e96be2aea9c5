// Package page draws runs of the simulator: one HTML page, with all in it that it
// needs, for a run, and one for two runs side by side.
//
// The pictures are SVG, made here, so that a page shows what it shows without its
// script; the script only reads values off the curves. Colours are the page's own
// properties, once for light and once for dark.
package page
