// Package show says what a rollout looks like: as a grid of its cells for a terminal, as events for programs, and as
// Markdown for people who review. It is pure: equal arguments give equal text.
//
// # Guarantees
//
// Each is held by the test of the same name.
//
//  1. Clean: nothing that a rollout says of reasons, alarms, holders or names can move a cursor or change a colour: no
//     line has a character that does not print, apart from the colours that Look asks for.
//  2. Fits: no line is wider than Look.Width, and there are no more than Look.Height.
//  3. Every: each cell has one mark in the grid, or is counted in the line of its wave where there is no room.
//  4. Told: steps of different kinds have different marks without colours.
//  5. Replayed: the events of a journal, one after another, lead to the status of the rollout and the step of every
//     cell; none is told twice.
//  6. Inert: a summary is bounded, and nothing in it that comes from outside is read as Markdown, HTML, a link or a mention.
package show
