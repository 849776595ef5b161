package audit_test

import (
	"maps"
	"slices"
	"strings"

	"cellwall.dev/cellwall/internal/audit"
)

// sampleKind is one way to refer to what is shared.
type sampleKind struct {
	name     string
	oneStack bool // it exists within one stack only
	named    bool // it needs the shared name, a neighbour's resource included
	needs    func(shardResource) bool
	observed bool   // between two observers it is listed, and no hole
	rule     string // that finds it instead of the type's own
	// value is the expression for an attribute of what is shared, "" for what Ref gives. It may add to the user's
	// template, and to home.
	value func(m *mutant, body object, attr string) any
	// apply changes the user's template in another way than by putting value where the own resource was named.
	apply func(m *mutant, shard, prefix string, body object)
}

var sampleKinds = []sampleKind{
	{name: "Ref and GetAtt", oneStack: true, value: func(m *mutant, _ object, attr string) any { return referTo(m.shared, attr) }},
	{name: "Sub", oneStack: true, value: func(m *mutant, _ object, attr string) any {
		return object{"Fn::Sub": "${" + dotted(m.shared, attr) + "}"}
	}},
	{name: "Sub within text", oneStack: true, value: func(m *mutant, _ object, attr string) any {
		return object{"Fn::Sub": "x/${AWS::Region}/${" + dotted(m.shared, attr) + "}/*"}
	}},
	{name: "Sub with variables", oneStack: true, value: func(m *mutant, _ object, attr string) any {
		return object{"Fn::Sub": []any{"${it}", object{"it": referTo(m.shared, attr)}}}
	}},
	{name: "Join", oneStack: true, value: func(m *mutant, _ object, attr string) any {
		return object{"Fn::Join": []any{"", []any{referTo(m.shared, attr), "/*"}}}
	}},
	{name: "Select of Split", oneStack: true, value: func(m *mutant, _ object, attr string) any {
		return object{"Fn::Select": []any{0, object{"Fn::Split": []any{"|", referTo(m.shared, attr)}}}}
	}},
	{name: "If", oneStack: true, value: func(m *mutant, body object, attr string) any {
		body["Conditions"].(object)["Sometimes"] = object{"Fn::Equals": []any{object{"Ref": "AWS::Region"}, "eu-west-1"}}
		return object{"Fn::If": []any{"Sometimes", object{"Ref": "AWS::NoValue"}, referTo(m.shared, attr)}}
	}},
	{name: "DependsOn", oneStack: true, rule: "SI007", apply: func(m *mutant, _, prefix string, body object) {
		id := prefix + "Name" // a record, on which nothing else depends
		if m.res.id == "Name" {
			id = prefix + "KeyAlias"
		}
		r := replaced(resourcesOf(body)[id], func(any) (any, bool) { return nil, false }).(object)
		r["DependsOn"] = []any{m.shared}
		resourcesOf(body)[id] = r
	}},
	{name: "import", value: func(m *mutant, _ object, attr string) any {
		return object{"Fn::ImportValue": m.export(attr)}
	}},
	{name: "import of a Sub", value: func(m *mutant, body object, attr string) any {
		body["Parameters"].(object)["Service"] = object{"Type": "String", "Default": "orders"}
		return object{"Fn::ImportValue": object{"Fn::Sub": strings.Replace(m.export(attr), "orders", "${Service}", 1)}}
	}},
	{name: "import within a Join", value: func(m *mutant, _ object, attr string) any {
		return object{"Fn::Join": []any{"", []any{object{"Fn::ImportValue": m.export(attr)}, "/*"}}}
	}},
	{name: "stack output", value: func(m *mutant, _ object, attr string) any {
		m.export(attr)
		return object{"Fn::GetStackOutput": object{"StackName": m.sample[m.home.path].name, "OutputName": outputOf(attr)}}
	}},
	{name: "typed parameter", value: func(m *mutant, body object, attr string) any {
		body["Parameters"].(object)["Read"+outputOf(attr)] = object{"Type": "AWS::SSM::Parameter::Value<String>", "Default": m.publish(attr, referTo(m.shared, attr))}
		return object{"Ref": "Read" + outputOf(attr)}
	}},
	{name: "dynamic reference", value: func(m *mutant, _ object, attr string) any {
		return "{{resolve:ssm:" + m.publish(attr, referTo(m.shared, attr)) + ":1}}"
	}},
	{name: "dynamic reference put together", value: func(m *mutant, _ object, attr string) any {
		return object{"Fn::Join": []any{"", []any{"{{resolve:ssm-secure:", object{"Fn::Sub": m.publish(attr, referTo(m.shared, attr))}, "}}"}}}
	}},
	{name: "parameter with an ARN", needs: hasSampleARN, named: true, value: func(m *mutant, _ object, attr string) any {
		return "{{resolve:ssm:" + m.publish("Text", m.res.sharedARN()) + "}}"
	}},
	{name: "parameter of a nested stack", apply: func(m *mutant, shard, prefix string, body object) {
		path, _ := m.at(shard)
		parent := m.sample[path]
		resourcesOf(body)["Nested"] = object{"Type": "AWS::CloudFormation::Stack", "Properties": object{"TemplateURL": "nested.json",
			"Parameters": object{"Given": object{"Fn::ImportValue": m.export("")}}}}
		child := object{"Parameters": object{"Given": object{"Type": "String"}}, "Resources": object{"Inner": object{"Type": "AWS::ECS::TaskDefinition", "Properties": object{
			"ContainerDefinitions": []any{object{"Name": "app", "Environment": []any{object{"Name": "SHARED", "Value": object{"Ref": "Given"}}}}}}}}}
		m.sample[path+"/nested"] = sampleStack{name: parent.name + "-nested", path: path + "/nested", body: child, read: parsed(m.testing, child),
			nested: &audit.NestedIn{Name: parent.name, File: path + ".json", Resource: "Nested"}}
	}},
	{name: "ARN", needs: hasSampleARN, named: true, value: func(m *mutant, _ object, _ string) any { return m.res.sharedARN() }},
	{name: "ARN by Sub", needs: hasSampleARN, named: true, value: func(m *mutant, _ object, _ string) any {
		return object{"Fn::Sub": strings.NewReplacer("arn:aws:", "arn:${AWS::Partition}:", "eu-west-1", "${AWS::Region}", "111111111111", "${AWS::AccountId}").Replace(m.res.sharedARN())}
	}},
	{name: "ARN by Join", needs: hasSampleARN, named: true, value: func(m *mutant, _ object, _ string) any {
		_, rest, _ := strings.Cut(m.res.sharedARN(), "arn:aws:")
		return object{"Fn::Join": []any{"", []any{"arn:", object{"Ref": "AWS::Partition"}, ":", rest}}}
	}},
	{name: "ARN from a mapping", needs: hasSampleARN, named: true, value: func(m *mutant, body object, _ string) any {
		body["Mappings"].(object)["Where"] = object{"eu-west-1": object{"arn": m.res.sharedARN()}}
		return object{"Fn::FindInMap": []any{"Where", object{"Ref": "AWS::Region"}, "arn"}}
	}},
	{name: "ARN from a parameter", needs: hasSampleARN, named: true, value: func(m *mutant, body object, _ string) any {
		body["Parameters"].(object)["Theirs"] = object{"Type": "String", "Default": m.res.sharedARN()}
		return object{"Ref": "Theirs"}
	}},
	{name: "ARN in a policy", needs: hasSampleARN, named: true, apply: func(m *mutant, _, prefix string, body object) {
		change(body, prefix+"InstanceRoleDefaultPolicy1531605C", func(properties object) {
			document := maps.Clone(properties["PolicyDocument"].(object))
			document["Statement"] = append(slices.Clone(document["Statement"].([]any)), object{"Effect": "Allow", "Action": "any:Describe", "Resource": m.res.sharedARN()})
			properties["PolicyDocument"] = document
		})
	}},
	{name: "name in the environment", needs: hasSampleName, named: true, apply: func(m *mutant, _, prefix string, body object) {
		m.setting(body, prefix, m.res.key, m.res.sharedName())
	}},
	{name: "name within a text", needs: hasSampleName, named: true, apply: func(m *mutant, _, prefix string, body object) {
		m.setting(body, prefix, "SETTINGS", "mode=fast;"+m.res.key+"="+m.res.sharedName())
	}},
	{name: "name from a parameter", needs: hasSampleName, named: true, apply: func(m *mutant, _, prefix string, body object) {
		body["Parameters"].(object)["Theirs"] = object{"Type": "String", "Default": "shared"}
		m.setting(body, prefix, m.res.key, object{"Fn::Sub": strings.Replace(m.res.sharedName(), "shared", "${Theirs}", 1)})
	}},
	{name: "name in user data", needs: hasSampleName, named: true, apply: func(m *mutant, _, prefix string, body object) {
		change(body, prefix+"Template576A9730", func(properties object) {
			data := maps.Clone(properties["LaunchTemplateData"].(object))
			data["UserData"] = object{"Fn::Base64": "#!/bin/sh\nexport " + m.res.key + "=\"" + m.res.sharedName() + "\"\n"}
			properties["LaunchTemplateData"] = data
		})
	}},
	{name: "equal physical names", observed: true, needs: func(r shardResource) bool { return r.name != "" }, named: true, apply: func(m *mutant, shard, prefix string, body object) {
		m.rename(body, prefix+m.res.idIn("eu-canary", shard))
	}},
	{name: "queue's address", needs: func(r shardResource) bool { return r.typ == "AWS::SQS::Queue" }, named: true, apply: func(m *mutant, _, prefix string, body object) {
		m.setting(body, prefix, "SEND_TO", object{"Fn::Sub": "https://sqs.${AWS::Region}.amazonaws.com/${AWS::AccountId}/" + m.res.sharedName()})
	}},
	{name: "bucket's address", needs: func(r shardResource) bool { return r.typ == "AWS::S3::Bucket" }, named: true, apply: func(m *mutant, _, prefix string, body object) {
		m.setting(body, prefix, "READ_FROM", "s3://"+m.res.sharedName()+"/some/key")
	}},
}

func hasSampleName(r shardResource) bool { return r.key != "" }

func dotted(id, attr string) string {
	if attr == "" {
		return id
	}
	return id + "." + attr
}

func outputOf(attr string) string { return "Shared" + strings.ReplaceAll(attr, ".", "") }

func hasSampleARN(r shardResource) bool { return r.arn != "" }

// export makes home export the attribute, and says the export's name.
func (m *mutant) export(attr string) string {
	name := outputOf(attr)
	st := m.sample[m.home.path]
	if outputs, ok := st.body["Outputs"].(object); !ok || outputs[name] == nil {
		m.sample.edit(m.testing, m.home.path, func(body object) {
			body["Outputs"].(object)[name] = object{"Value": referTo(m.shared, attr), "Export": object{"Name": object{"Fn::Sub": "${AWS::StackName}-" + name}}}
		})
	}
	return st.name + "-" + name
}

// publish makes home write the value to the Parameter Store, and says the parameter's name.
func (m *mutant) publish(attr string, v any) string {
	id := "Published" + outputOf(attr)
	name := "/orders/shared/" + outputOf(attr)
	if resourcesOf(m.sample[m.home.path].body)[id] == nil {
		m.sample.edit(m.testing, m.home.path, func(body object) {
			resourcesOf(body)[id] = object{"Type": "AWS::SSM::Parameter", "Properties": object{"Name": name, "Type": "String", "Value": v}}
		})
	}
	return name
}
