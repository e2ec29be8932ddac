/* Writes the seeds of object_answer_fuzz into the folder that is its only argument: an answer of each kind, and
 * addresses. No seed is stored in the repository. */
#include "tests/fuzz/corpus.h"

static const char *const corpus_seeds[] = {
    "0<?xml version=\"1.0\"?><ListBucketResult xmlns=\"u\"><EncodingType>url</EncodingType><IsTruncated>true"
    "</IsTruncated><NextContinuationToken>1/x=</NextContinuationToken><Contents><Key>a%20b%2Fc+d</Key><Size>12</Size>"
    "<ETag>&quot;v1&quot;</ETag></Contents><CommonPrefixes><Prefix>d/</Prefix></CommonPrefixes></ListBucketResult>",
    "0<ListMultipartUploadsResult><IsTruncated>true</IsTruncated><NextKeyMarker>k</NextKeyMarker><NextUploadIdMarker>u"
    "</NextUploadIdMarker><Upload><Key>k</Key><UploadId>u</UploadId></Upload></ListMultipartUploadsResult>",
    "0<InitiateMultipartUploadResult><UploadId>u/1</UploadId></InitiateMultipartUploadResult>",
    "0<Error><Code>InternalError</Code></Error>",
    "1HTTP/1.1 301 Moved\r\nx-amz-bucket-region: eu-west-3\r\nETag: \"v1\"\r\n\n\n<Error><Code>PermanentRedirect</Code>"
    "<Message>m</Message><Region>eu-west-3</Region></Error>",
    "1HTTP/1.1 206 Partial\r\nContent-Range: bytes 0-99/1000\r\nETag: W/\"a\"\r\nLast-Modified: Thu, 01 Jan 2026 "
    "00:00:00 GMT\r\n",
    "1HTTP/1.1 416 Range\r\nContent-Range: bytes */0\r\n",
    "1HTTP/1.1 307 Temporary\r\nLocation: https://b.s3.us-west-2.amazonaws.com/k?a\r\n\n\n<Error><Endpoint>"
    "b.s3-eu-west-1.amazonaws.com</Endpoint></Error>",
    "2bucket.s3.dualstack.eu-west-3.amazonaws.com.cn",
    "3<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>A</AccessKeyId>"
    "<SecretAccessKey>S</SecretAccessKey><SessionToken>T</SessionToken><Expiration>2030-01-01T00:00:00Z</Expiration>"
    "</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>",
    "3<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>A</AccessKeyId></Credentials></AssumeRoleResult>"
    "</AssumeRoleResponse>",
    "3<ErrorResponse><Error><Code>AccessDenied</Code><Message>m</Message></Error></ErrorResponse>",
    "2s3://bucket/key of/an object",
    "2https://host.example:8443/path?query=1#part",
    "2http://[::1]:80/x",
};

int main(int argc, char **argv) {
    return corpus_main("object_answer_corpus", argc, argv, corpus_seeds, sizeof corpus_seeds / sizeof *corpus_seeds);
}
