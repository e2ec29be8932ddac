/* Writes the seeds of ec2_answer_fuzz into the folder that is its only argument: an answer of each kind. No seed is
 * stored in the repository. */
#include "tests/fuzz/corpus.h"

static const char *const corpus_seeds[] = {
    "0<DescribeSpotPriceHistoryResponse xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\"><spotPriceHistorySet><item>"
    "<timestamp>2016-03-01T00:00:07.000Z</timestamp><spotPrice>0.0187</spotPrice><instanceType>c4.large</instanceType>"
    "<productDescription>Linux/UNIX</productDescription><availabilityZone>us-east-1a</availabilityZone></item>"
    "</spotPriceHistorySet><nextToken/></DescribeSpotPriceHistoryResponse>",
    "0<r:DescribeSpotInstanceRequestsResponse "
    "xmlns:r='u'><r:spotInstanceRequestSet><r:item><r:spotInstanceRequestId>sir-1"
    "</r:spotInstanceRequestId><r:state>active</r:state><r:status><r:code>instance-terminated-by-price</r:code></"
    "r:status>"
    "<r:instanceId>i-1</r:instanceId><r:tagSet><r:item><r:key>proteus:token</r:key><r:value>t</r:value></r:item>"
    "</r:tagSet></r:item></r:spotInstanceRequestSet></r:DescribeSpotInstanceRequestsResponse>",
    "0<DescribeInstancesResponse><reservationSet><item><instancesSet><item><instanceId>i-1</instanceId><instanceState>"
    "<code>16</code><name>running</name></instanceState><launchTime>2016-03-01T00:00:07Z</launchTime><placement>"
    "<availabilityZone>z</availabilityZone></placement><stateReason><code>Server.SpotInstanceTermination</"
    "code><message>m"
    "</message></stateReason></item></instancesSet></item></reservationSet></DescribeInstancesResponse>",
    "1<Response><Errors><Error><Code>RequestLimitExceeded</Code><Message>m &amp; "
    "n</Message></Error></Errors><RequestID>"
    "7a62</RequestID></Response>",
    "1<ErrorResponse><Errors><Error><Code>A</Code><Message><![CDATA[x]]></Message></Error></Errors></ErrorResponse>",
    "1<!DOCTYPE html><html><body>502</body></html>",
};

int main(int argc, char **argv) {
    return corpus_main("ec2_answer_corpus", argc, argv, corpus_seeds, sizeof corpus_seeds / sizeof *corpus_seeds);
}
