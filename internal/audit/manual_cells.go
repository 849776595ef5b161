package audit

const catastrophe = " A cell bounds a catastrophe only while no other cell needs it."

// crossManual is the documentation of the SC rules. The examples are the cores of two cells.
var crossManual = map[string]manual{
	"SC001": {"export of another cell", "A stack of one cell imports what a stack of another one exports, or reads its output. While the import stands, CloudFormation lets the exporting cell neither change nor remove the value." + catastrophe,
		`-- orders-eu-1-core.yaml --
Resources:
  Queue: {Type: AWS::SQS::Queue}
Outputs:
  Queue: {Value: !GetAtt Queue.Arn, Export: {Name: eu-1-queue}}
-- orders-eu-2-core.yaml --
Resources:
  Router:
    Type: AWS::Lambda::Function
    Properties: {Environment: {Variables: {SPILL: !ImportValue eu-1-queue}}}
`},
	"SC002": {"SSM parameter of another cell", "A stack of one cell reads a parameter that a stack of another one writes. An edit in the one changes the other at its next deployment, and nothing says when." + catastrophe,
		`-- orders-eu-1-core.yaml --
Resources:
  Limit: {Type: AWS::SSM::Parameter, Properties: {Name: /orders/eu-1/limit, Type: String, Value: "100"}}
-- orders-eu-2-core.yaml --
Parameters:
  Limit: {Type: "AWS::SSM::Parameter::Value<String>", Default: /orders/eu-1/limit}
Resources:
  Router:
    Type: AWS::Lambda::Function
    Properties: {Environment: {Variables: {LIMIT: !Ref Limit}}}
`},
	"SC003": {"ARN, name or address of another cell", "A stack of one cell names a resource of another one outright, so that CloudFormation knows nothing of the dependence. Two resources of one physical name in two cells are one resource and the same fault." + catastrophe,
		`-- orders-eu-1-core.yaml --
Resources:
  Queue: {Type: AWS::SQS::Queue, Properties: {QueueName: orders-eu-1-spill}}
-- orders-eu-2-core.yaml --
Resources:
  Router:
    Type: AWS::Lambda::Function
    Properties: {Environment: {Variables: {SPILL: !Sub "arn:aws:sqs:${AWS::Region}:${AWS::AccountId}:orders-eu-1-spill"}}}
`},
	"SC004": {"network path between cells", "A peering, a transit gateway, a cloud WAN or a service network joins the networks of several cells. A flood, a wrong route or an intruder crosses it." + catastrophe,
		`-- network.yaml --
Resources:
  Hub: {Type: AWS::EC2::TransitGateway}
Outputs:
  Hub: {Value: !Ref Hub, Export: {Name: hub}}
-- orders-eu-1-core.yaml orders-eu-2-core.yaml --
Resources:
  Vpc: {Type: AWS::EC2::VPC}
  Attach:
    Type: AWS::EC2::TransitGatewayAttachment
    Properties: {TransitGatewayId: !ImportValue hub, VpcId: !Ref Vpc}
`},
	"SC005": {"deployment of one cell that waits for another", "The manifest deploys a stack of one cell before a stack of another one, or one stack holds resources of two cells that refer to each other. A failed update of the one holds back the other." + catastrophe,
		`-- both.yaml --
Resources:
  One: {Type: AWS::SQS::Queue, Properties: {Tags: [{Key: "cellwall:cell", Value: eu-1}]}}
  Two:
    Type: AWS::SQS::Queue
    Properties:
      RedrivePolicy: {deadLetterTargetArn: !GetAtt One.Arn, maxReceiveCount: 5}
      Tags: [{Key: "cellwall:cell", Value: eu-2}]
`},
	"SC006": {"export dropped while a deployed stack imports it", "The new assembly drops or changes an export that a deployed stack imports, as happens in the CDK when a consumer stops importing, or is removed: the export goes with its last reference. CloudFormation refuses to update the exporting stack until nobody imports it any more. It is an error when no order of deployments works: the importing stack is not in the new assembly, imports it still, or needs something that the exporting one has to export first. A warning when one does: those that import it first. It takes the stacks as they are deployed (--before DIR), below was/ in the example.",
		`-- was/orders-core.yaml --
Resources:
  Queue: {Type: AWS::SQS::Queue}
Outputs:
  Queue: {Value: !GetAtt Queue.Arn, Export: {Name: orders-queue}}
-- was/orders-mailer.yaml --
Resources:
  Mailer:
    Type: AWS::Lambda::Function
    Properties: {Environment: {Variables: {QUEUE: !ImportValue orders-queue}}}
-- orders-core.yaml --
Resources:
  Queue: {Type: AWS::SQS::Queue}
`},
}

// cellManual is the documentation of the SD and SI rules that look at several cells.
var cellManual = map[string]manual{
	"SD014": {"NAT gateway or endpoint of several cells", "Shards of several cells leave through one NAT gateway or endpoint. Within one cell that is expected, and listed: the cell bounds it. A fault or a full port table there is every one of these cells' at once." + catastrophe,
		`-- network.yaml --
Resources:
  Way: {Type: AWS::EC2::VPCEndpoint}
Outputs:
  Way: {Value: !Ref Way, Export: {Name: way}}
-- orders-eu-1-shard-s01.yaml orders-eu-2-shard-s01.yaml --
Resources:
  Route:
    Type: AWS::EC2::Route
    Properties: {VpcEndpointId: !ImportValue way}
`},
	"SI009": {"one version everywhere", "All shards of a cell run one build (an AMI, an image, a layer, an asset), so that a bad one is in all of them: a monoculture. Between rollouts that is how it should be, and a pinned version is listed with the waves that would break it. A version that is not pinned, or that one wave brings to all of several cells, is a warning.",
		shardFiles + `Resources:
  Tasks:
    Type: AWS::ECS::TaskDefinition
    Properties: {ContainerDefinitions: [{Name: web, Image: "example.com/orders:latest"}]}
`},
}

// ownerManual is the documentation of the UN rules about who is who.
var ownerManual = map[string]manual{
	"UN006": {"disagreement on who is who", "Two rules of the mapping, or the mapping and a tag or construct path, place one stack or resource differently; or a rule of the mapping matches nothing. The message says what was taken. A wrong owner makes findings that are none and hides those that are.",
		"cellwall audit --shard 'tag:node' DIR   # where a stack tagged node=n1 has cellwall:shard=s01 as well"},
	"UN007": {"part of the fleet that was not read", "The fleet file has a cell or a shard of which the input holds no stack: one cell was synthesised by context, or a stack is missing. What it shares with the others was not judged. Its reservations count from the fleet file.",
		"npx cdk synth -c cell=eu-1 && cellwall audit --fleet fleet.yaml cdk.out"},
	"UN009": {"like stacks that belong nowhere", "Beside the shards that were recognised there are stacks that nothing places, with the same types of resources, whose names, paths or tags differ as those of shards do. If they are shards, what they share was not judged. The fix has a mapping that would fit them.",
		shardFiles + `Resources:
  Table: {Type: AWS::DynamoDB::Table}
-- billing-node-1.yaml billing-node-2.yaml --
Resources:
  Table: {Type: AWS::DynamoDB::Table}
`},
}
