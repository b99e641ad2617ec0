"""Any S3-compatible bucket, R2 among them, over boto3.

R2 does not take the checksums that boto3 sends and asks for unless told otherwise, so both are left to "when required";
contents are judged by the engine's own digests.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from engine.binding import is_address
from engine.buckets import Bucket
from engine.errors import StorageBindingUnavailable, StorageCapabilityMissing, StorageUnusable
from r2.blobs import BucketBlobs
from r2.keys import Facts, Held
from r2.objects import BucketObjects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

T = TypeVar("T")

ATTEMPTS: Final = 3
"""How often what is harmless to repeat is sent."""

TIMEOUT_S: Final = 15
PAGE: Final = 1000
"""Keys of one page of a listing."""
CORRECT: Final = (
    "correct CONTEXTFUL_S3_BUCKET, …_ENDPOINT, …_REGION, …_ACCESS_KEY_ID or …_SECRET_ACCESS_KEY, and run again"
)
"""What to do where the bucket or its keys are others than the settings say."""

_OF_THE_SETTINGS: Final = frozenset({"NoSuchBucket", "InvalidAccessKeyId", "SignatureDoesNotMatch", "AccessDenied"})
"""Refusals that tell of no object: a bucket that is not there is none that lacks it."""

_ABSENT: Final = 404
_NOT_AS_KNOWN: Final = 412

_REQUEST_IDS: Final = ("x-amz-", "x-goog-", "x-guploader-")
"""How the headers begin in which a bucket names the request it answers."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the bucket is. Without an access key the usual AWS settings of the machine count."""

    bucket: str
    endpoint: str | None
    region: str
    prefix: str
    access_key: str | None
    secret_key: str | None

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Settings:
        """Read `CONTEXTFUL_S3_BUCKET`, `…_ENDPOINT`, `…_REGION` (auto), `…_PREFIX`, `…_ACCESS_KEY_ID` and
        `…_SECRET_ACCESS_KEY`. Raise `StorageCapabilityMissing`.
        """  # noqa: D205 - the names are the summary
        told = {name.removeprefix("CONTEXTFUL_S3_"): value for name, value in environ.items() if value}
        if "BUCKET" not in told:
            raise StorageCapabilityMissing(profile="r2-s3", missing="CONTEXTFUL_S3_BUCKET is not set")
        if ("ACCESS_KEY_ID" in told) != ("SECRET_ACCESS_KEY" in told):
            both = "CONTEXTFUL_S3_ACCESS_KEY_ID and CONTEXTFUL_S3_SECRET_ACCESS_KEY go together and one is not set"
            raise StorageCapabilityMissing(profile="r2-s3", missing=both)
        if "ENDPOINT" in told and not is_address(told["ENDPOINT"]):
            wrong = (
                f"CONTEXTFUL_S3_ENDPOINT is {told['ENDPOINT']!r} and must be an address such as https://s3.example.com"
            )
            raise StorageCapabilityMissing(profile="r2-s3", missing=wrong)
        prefix = told.get("PREFIX", "").strip("/")
        return cls(
            told["BUCKET"], told.get("ENDPOINT"), told.get("REGION", "auto"), f"{prefix}/" if prefix else "",
            told.get("ACCESS_KEY_ID"), told.get("SECRET_ACCESS_KEY"),
        )  # fmt: skip


def over_s3(cache: Path, *, environ: Mapping[str, str]) -> Bucket:
    """Open the bucket that the settings name; `cache` holds local copies of what is read by path."""
    settings = Settings.of(environ)
    keys = S3Keys(_client(settings), settings)
    return Bucket(BucketObjects(keys, cache), lambda database: BucketBlobs(keys, database), keys.close)


class S3Keys:
    """`Keys` in a bucket, below the settings' prefix."""

    def __init__(self, client: Any, settings: Settings) -> None:
        self._client = client
        self._bucket = settings.bucket
        self._prefix = settings.prefix
        self._place = f"{settings.endpoint or 's3'}/{settings.bucket}"

    def get(self, key: str) -> Held | None:
        """GetObject."""

        def read() -> Held:
            answer = self._client.get_object(**self._at(key))
            return Held(answer["Body"].read(), _bare(_told_of(answer, "ETag")))

        return self._unless(_ABSENT, lambda: self._read(read, key))

    def head(self, key: str) -> Facts | None:
        """HeadObject."""

        def look() -> Facts:
            answer = self._client.head_object(**self._at(key))
            written_at = int(_told_of(answer, "LastModified").timestamp() * 1000)
            return Facts(key, _told_of(answer, "ContentLength"), _bare(_told_of(answer, "ETag")), written_at)

        return self._unless(_ABSENT, lambda: self._read(look, key))

    def put(self, key: str, content: bytes, *, replacing: str | None) -> bool:
        """PutObject under a condition. Where nothing stands, `If-Match` may be answered as absent."""
        condition = {"IfNoneMatch": "*"} if replacing is None else {"IfMatch": f'"{replacing}"'}

        def write() -> bool:
            return bool(_told_of(self._client.put_object(**self._at(key), Body=content, **condition), "ETag"))

        return bool(self._unless(_NOT_AS_KNOWN, lambda: self._unless(_ABSENT, lambda: self._asked(write, key))))

    def create(self, key: str, content: bytes) -> bool:
        """PutObject under `If-None-Match: *`, once."""

        def write() -> bool:
            return bool(_told_of(self._client.put_object(**self._at(key), Body=content, IfNoneMatch="*"), "ETag"))

        return bool(self._unless(_NOT_AS_KNOWN, lambda: self._told(write, key)))

    def delete(self, key: str) -> bool:
        """DeleteObject, once."""
        self._unless(_ABSENT, lambda: self._told(lambda: self._client.delete_object(**self._at(key)), key))
        return True

    def list(self, prefix: str) -> Iterator[Facts]:
        """ListObjectsV2, page after page."""
        more: dict[str, str] = {}

        def look() -> Any:
            page = self._client.list_objects_v2(**self._under(prefix), **more)
            _told_of(page, "IsTruncated")
            return page

        while True:
            page = self._read(look, prefix)
            for each in page.get("Contents", ()):
                written_at = int(each["LastModified"].timestamp() * 1000)
                yield Facts(each["Key"].removeprefix(self._prefix), each["Size"], _bare(each["ETag"]), written_at)
            if not page["IsTruncated"]:
                return
            more = {"ContinuationToken": page["NextContinuationToken"]}

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _at(self, key: str) -> dict[str, str]:
        return {"Bucket": self._bucket, "Key": self._prefix + key}

    def _under(self, prefix: str) -> dict[str, Any]:
        return {"Bucket": self._bucket, "Prefix": self._prefix + prefix, "MaxKeys": PAGE}

    def _read(self, request: Callable[[], T], key: str) -> T:
        """Send what changes nothing, again while no usable answer comes."""
        try:
            return self._asked(request, key)
        except StorageBindingUnavailable as lost:
            raise _unavailable(lost.place, lost.reason, applied="no") from lost

    def _asked(self, request: Callable[[], T], key: str) -> T:
        """Send what is harmless to repeat, again while no usable answer comes; any attempt may have been applied."""
        for attempt in range(1, ATTEMPTS):
            try:
                return self._told(request, key)
            except StorageBindingUnavailable:
                time.sleep(0.1 * 2**attempt)
        return self._told(request, key)

    def _told(self, request: Callable[[], T], key: str) -> T:
        """Send once. Raise `_Answered` for a refusal a caller may expect, else what it means."""
        from botocore.exceptions import (  # noqa: PLC0415 - an extra
            BotoCoreError,
            ClientError,
            NoCredentialsError,
            ParamValidationError,
        )
        from urllib3.exceptions import HTTPError  # noqa: PLC0415 - as above

        place = f"{self._place}/{self._prefix}{key}"
        try:
            return request()
        except _Foreign as lost:
            raise _unavailable(place, str(lost), applied="unknown") from lost
        except ClientError as refusal:
            status = refusal.response["ResponseMetadata"].get("HTTPStatusCode", 0)
            if _is_page(refusal.response):
                raise _unavailable(place, str(_Foreign(status)), applied="unknown") from refusal
            reason = f"{refusal.response['Error'].get('Code', status)}: {refusal.response['Error'].get('Message', '')}"
            if status in {409, 429} or status >= 500:
                raise _unavailable(place, reason, applied="unknown") from refusal
            if refusal.response["Error"].get("Code") in _OF_THE_SETTINGS:
                raise StorageUnusable(place=place, reason=reason).advising(CORRECT) from refusal
            raise _Answered(status, place=place, reason=reason) from refusal
        except (NoCredentialsError, ParamValidationError) as wrong:
            raise StorageUnusable(place=place, reason=str(wrong)).advising(CORRECT) from wrong
        except (BotoCoreError, HTTPError) as lost:
            raise _unavailable(place, str(lost), applied="unknown") from lost

    def _unless(self, status: int, request: Callable[[], T]) -> T | None:
        """What `request` gives, or None where the bucket answered `status`."""
        try:
            return request()
        except _Answered as answered:
            if answered.status == status:
                return None
            raise


class _Foreign(Exception):
    """Somebody on the way to the bucket, or in its stead, answered with the given HTTP status."""

    def __str__(self) -> str:
        return f"it answered HTTP {self.args[0]}, which is none of a bucket's answers"


def _told_of(answer: Any, fact: str) -> Any:
    """What `answer` tells of a content. Raise `_Foreign` where it lacks that: a bucket always tells it."""
    if fact not in answer:
        raise _Foreign(answer["ResponseMetadata"].get("HTTPStatusCode", 0))
    return answer[fact]


def _is_page(answer: Any) -> bool:
    """Whether an error is a page: it has no code of a bucket's, or no document and is called by the name of one.

    To a HEAD no bucket answers a document, and some call it a page all the same; a bucket's names its request.
    """
    code, headers = str(answer["Error"].get("Code", "")), answer["ResponseMetadata"].get("HTTPHeaders", {})
    if not code:
        return True
    named = any(name.startswith(_REQUEST_IDS) for name in headers)
    return code.isdecimal() and not named and headers.get("content-type", "").startswith("text/html")


def _unavailable(place: str, reason: str, *, applied: Literal["no", "unknown"]) -> StorageBindingUnavailable:
    """No usable answer, which may be the settings' fault too."""
    lost = StorageBindingUnavailable(place=place, reason=reason, applied=applied)
    return lost.advising(f"see that CONTEXTFUL_S3_ENDPOINT is right; {lost.remedy}")


class _Answered(StorageUnusable):
    """A refusal, with its HTTP status: nothing was changed."""

    def __init__(self, status: int, *, place: str, reason: str) -> None:
        super().__init__(place=place, reason=reason)
        self.status = status


def _client(settings: Settings) -> Any:
    try:
        import boto3  # noqa: PLC0415 - an extra
        from botocore.config import Config  # noqa: PLC0415 - as above
    except ModuleNotFoundError as absent:
        missing = "boto3 is not installed: pip install 'contextful[cloudflare]'"
        raise StorageCapabilityMissing(profile="r2-s3", missing=missing) from absent
    how = Config(
        signature_version="s3v4",
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        connect_timeout=TIMEOUT_S,
        read_timeout=TIMEOUT_S,
        retries={"total_max_attempts": 1},
    )
    session = boto3.session.Session(settings.access_key, settings.secret_key, region_name=settings.region)
    return session.client("s3", endpoint_url=settings.endpoint, config=how)


def _bare(etag: str) -> str:
    return etag.removeprefix("W/").strip('"')
