// Package template is a CloudFormation template as data: nodes free of the file format, the sections
// that matter to a reference graph, every place that refers to something, and the evaluation of
// strings as far as a template alone allows it. YAML is decoded elsewhere into the same nodes.
//
// # Guarantees
//
//  1. RoundTrip: a node that is written as JSON and decoded again is the same node, key order included.
//  2. BoundedDecoding: decoding ends in a node or in an error with a line and a column, whatever the
//     input; no node is deeper than MaxDepth, and a key that stands twice in one object is an error.
//  3. EveryReference: each Ref, Fn::GetAtt, Fn::Sub variable, Fn::ImportValue and Fn::GetStackOutput
//     anywhere in a value is reported exactly once, with the path that leads to it.
//  4. BoundedEvaluation: Eval ends for every node, after MaxWork values at most, with at most
//     MaxAlternatives texts, none that it puts together longer than MaxText bytes; what it cannot know is
//     a hole in the text, never a guess.
//  5. SubLiteral: a string without "${" evaluates to itself, and "${!x}" to "${x}".
package template
